"""The keys this host trusts, and the resulting signer information of installed plugins."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound
from paddock.plugins.store.rows import VersionRow
from paddock.plugins.store.store import PluginStore
from paddock.plugins.trust.signature import (
    TRUST_TIERS,
    SignatureState,
    SignatureVerdict,
    TrustedKey,
    TrustTier,
    effective_tier,
)
from paddock.plugins.trust.signing_keys import KeyId, key_id, read_public_key
from paddock.store.database import Transaction


class TrustedKeyRow(Struct, frozen=True):
    """A trusted key as stored and listed."""

    key_id: KeyId
    public_key: str
    label: str
    added_at: str


def list_trusted_keys(tx: Transaction) -> list[TrustedKeyRow]:
    rows = tx.all("SELECT key_id, public_key, label, added_at FROM trusted_keys ORDER BY added_at, key_id")
    return [TrustedKeyRow(**row) for row in rows]


def trusted_keys_by_id(tx: Transaction) -> Mapping[KeyId, TrustedKey]:
    return {row.key_id: TrustedKey(read_public_key(row.public_key), row.label) for row in list_trusted_keys(tx)}


def trusted_key_ids(tx: Transaction) -> frozenset[KeyId]:
    return frozenset(row.key_id for row in list_trusted_keys(tx))


def is_signed_by(row: VersionRow, keys: Container[KeyId]) -> bool:
    """Whether one of these keys signed an installed version."""
    signature = row.signature
    return signature is not None and KeyId(signature["key_id"]) in keys


def trust_key(store: PluginStore, key: str | Path, label: str) -> TrustedKeyRow:
    """Trust a key: packages signed with it count as verified from now on."""
    # Imported lazily, here and below: defining all events takes longer than a listing of trusted keys.
    from paddock.core.events.plugin_management import KeyTrusted

    public_key = read_public_key(key)
    row = TrustedKeyRow(key_id(public_key), public_key.text, label, store.now())

    def unit(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO trusted_keys (key_id, public_key, label, tier, added_at) VALUES (?, ?, ?, 'verified', ?) "
            "ON CONFLICT (key_id) DO UPDATE SET label = excluded.label",
            (row.key_id, row.public_key, row.label, row.added_at),
        )
        store.publish(tx, KeyTrusted(key_id=row.key_id, label=row.label))

    store.database.write(unit)
    return row


def distrust_key(store: PluginStore, id_or_label: str) -> TrustedKeyRow:
    """Stop trusting a key, named by its id or label.

    Raises:
        NotFound: no trusted key has that id or label.
    """
    from paddock.core.events.plugin_management import KeyRemoved

    def unit(tx: Transaction) -> TrustedKeyRow:
        row = require_trusted_key(tx, id_or_label)
        tx.execute("DELETE FROM trusted_keys WHERE key_id = ?", (row.key_id,))
        store.publish(tx, KeyRemoved(key_id=row.key_id))
        return row

    return store.database.write(unit)


def require_trusted_key(tx: Transaction, id_or_label: str) -> TrustedKeyRow:
    """Return the trusted key of that id, or the only one of that label.

    Raises:
        NotFound: no trusted key has that id or label.
        Conflict: several have that label.
    """
    rows = list_trusted_keys(tx)
    matches = [row for row in rows if row.key_id == id_or_label] or [row for row in rows if row.label == id_or_label]
    if not matches:
        raise NotFound(
            f"no trusted key has the id or label {id_or_label!r}", code="key.not_found", action=Action.of("key.list")
        )
    if len(matches) > 1:
        raise Conflict(
            f"{len(matches)} trusted keys have the label {id_or_label!r}",
            code="key.ambiguous",
            hint=f"name one by its id: {', '.join(row.key_id for row in matches)}",
        )
    return matches[0]


def signature_to_value(verdict: SignatureVerdict) -> dict[str, Any] | None:
    """Return what install stores of a valid signature: it was verified then, against a digest that cannot change."""
    return {"key_id": verdict.key} if verdict.key else None


class SignerInfo(NamedTuple):
    """The signer of an installed version, as trusted here and now."""

    state: SignatureState
    description: str
    tier: TrustTier
    key: KeyId | None = None


def describe_signer(row: VersionRow, trusted: Mapping[KeyId, str], *, intact: bool) -> SignerInfo:
    """Describe the signer of an installed version.

    Args:
        row: The version.
        trusted: Label by key id.
        intact: Whether its files are still the ones that were installed.
    """
    signature = row.signature
    key = KeyId(signature["key_id"]) if signature else None
    if not intact:
        state, description = SignatureState.MODIFIED, "its files were changed after it was installed"
    elif key is None:
        state, description = SignatureState.UNSIGNED, "nobody signed it"
    elif key in trusted:
        state, description = SignatureState.VERIFIED, f"signed by {trusted[key]}"
    else:
        state, description = SignatureState.COMMUNITY_SIGNED, f"signed by {key}, a key that is not trusted here"
    return SignerInfo(state, description, effective_tier(state, row.document.get("trust_claim")), key)


def describe_trust_loss(installed: SignerInfo | None, verdict: SignatureVerdict, tier: TrustTier) -> str:
    """Describe the trust in the signer that an upgrade gives up; empty if it gives up none.

    Args:
        installed: The signer of the installed version, if there is one.
        verdict: The signature of the new version.
        tier: The trust tier of the new version.
    """
    if installed is None or installed.state not in (SignatureState.VERIFIED, SignatureState.COMMUNITY_SIGNED):
        return ""
    if installed.key == verdict.key and TRUST_TIERS.index(tier) >= TRUST_TIERS.index(installed.tier):
        return ""
    return (
        f"the installed version is {installed.state.value} ({installed.description}); this one is {verdict.state.value}"
    )

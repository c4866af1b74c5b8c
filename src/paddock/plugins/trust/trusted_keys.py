"""Which keys this host trusts, and what that makes of a signed plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from paddock.core.errors import Conflict, NotFound
from paddock.plugins.store.rows import VersionRow
from paddock.plugins.store.store import PluginStore
from paddock.plugins.trust.signature import SignatureState, SignatureVerdict, TrustedKey, TrustTier, effective_tier
from paddock.plugins.trust.signing_keys import KeyId, key_id, read_public_key
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class TrustedKeyRow:
    """A trusted key as it is kept and listed."""

    key_id: KeyId
    public_key: str
    label: str
    added_at: str


def list_trusted_keys(tx: Transaction) -> list[TrustedKeyRow]:
    rows = tx.all("SELECT key_id, public_key, label, added_at FROM trusted_keys ORDER BY added_at, key_id")
    return [TrustedKeyRow(**row) for row in rows]


def trusted_keys_by_id(tx: Transaction) -> Mapping[KeyId, TrustedKey]:
    return {row.key_id: TrustedKey(read_public_key(row.public_key), row.label) for row in list_trusted_keys(tx)}


def trust_key(store: PluginStore, key: str | Path, label: str) -> TrustedKeyRow:
    """Trust whoever holds this key: what they signed counts as verified from now on."""
    # Imported here and below: defining all events takes longer than the listing that only asks whom we trust.
    from paddock.core.events.plugin_management import KeyTrusted

    public = read_public_key(key)
    row = TrustedKeyRow(key_id(public), public.text, label, store.now())

    def unit(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO trusted_keys (key_id, public_key, label, tier, added_at) VALUES (?, ?, ?, 'verified', ?) "
            "ON CONFLICT (key_id) DO UPDATE SET label = excluded.label",
            (row.key_id, row.public_key, row.label, row.added_at),
        )
        store.publish(tx, KeyTrusted(key_id=row.key_id, label=row.label))

    store.database.write(unit)
    return row


def distrust_key(store: PluginStore, wanted: str) -> TrustedKeyRow:
    """Stop trusting a key, named by its id or label.

    Raises:
        NotFound: no trusted key goes by that.
    """
    from paddock.core.events.plugin_management import KeyRemoved

    def unit(tx: Transaction) -> TrustedKeyRow:
        row = require_trusted_key(tx, wanted)
        tx.execute("DELETE FROM trusted_keys WHERE key_id = ?", (row.key_id,))
        store.publish(tx, KeyRemoved(key_id=row.key_id))
        return row

    return store.database.write(unit)


def require_trusted_key(tx: Transaction, wanted: str) -> TrustedKeyRow:
    """The trusted key of that id, or the only one of that label.

    Raises:
        NotFound: no trusted key goes by that.
        Conflict: several have that label.
    """
    rows = list_trusted_keys(tx)
    found = [row for row in rows if row.key_id == wanted] or [row for row in rows if row.label == wanted]
    if not found:
        raise NotFound(f"no trusted key goes by {wanted!r}", code="key.not_found", hint="see 'paddock key list'")
    if len(found) > 1:
        raise Conflict(
            f"{len(found)} trusted keys have the label {wanted!r}",
            code="key.ambiguous",
            hint=f"name one by its id: {', '.join(row.key_id for row in found)}",
        )
    return found[0]


def signature_to_value(verdict: SignatureVerdict) -> dict[str, Any] | None:
    """What install keeps of a valid signature: it was checked then, against a digest that cannot change."""
    return {"key_id": verdict.key} if verdict.key else None


class SignerInfo(NamedTuple):
    """Who stands behind an installed version, as it counts here and now."""

    state: SignatureState
    words: str
    tier: TrustTier
    key: KeyId | None = None


def describe_signer(row: VersionRow, trusted: Mapping[KeyId, str], *, intact: bool) -> SignerInfo:
    """The standing of an installed version.

    Args:
        row: The version.
        trusted: Label by key id.
        intact: Whether its files are still the ones that were installed.
    """
    signature = row.signature
    key = KeyId(signature["key_id"]) if signature else None
    if not intact:
        state, words = SignatureState.MODIFIED, "its files were changed after it was installed"
    elif key is None:
        state, words = SignatureState.UNSIGNED, "nobody signed it"
    elif key in trusted:
        state, words = SignatureState.VERIFIED, f"signed by {trusted[key]}"
    else:
        state, words = SignatureState.COMMUNITY_SIGNED, f"signed by {key}, a key that is not trusted here"
    return SignerInfo(state, words, effective_tier(state, row.document.get("trust_claim")), key)

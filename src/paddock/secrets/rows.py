"""Rows of secrets: set, listed, found and removed. Every function takes the unit of work that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from paddock.core.clock import Random
from paddock.core.errors import NotFound, OperatorError
from paddock.core.events.event import EventSink
from paddock.core.events.secrets import SecretRemoved, SecretSet
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.core.secret import SECRET_NAME_RULE, Secret, is_valid_secret_name
from paddock.secrets.envelope import Envelope, SecretVersion, WrappingKey, seal
from paddock.secrets.key_stores import WrappingKeyRecord
from paddock.secrets.requirements import LookupOrder, SecretScope
from paddock.store.database import Row, Transaction

MAX_SECRET_CHARS = 64 * 1024
KEY_REPLACED, KEY_PENDING = 0, -1  # what `in_use` says of the keys that are not
_COLUMNS = "tenant, owner, name, version, set_at, set_by"


class AuditScope(Protocol):
    """One unit of work in which somebody changes secrets of a tenant; `principals.change.Change` is one."""

    @property
    def tx(self) -> Transaction: ...
    @property
    def tenant(self) -> Tenant: ...
    @property
    def by(self) -> PrincipalId: ...
    @property
    def now(self) -> str: ...
    @property
    def publish(self) -> EventSink: ...


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """What may be known of a secret: everything but its value."""

    tenant: Tenant
    owner: str
    name: str
    version: int
    set_at: str
    set_by: str

    @property
    def scope(self) -> SecretScope:
        return SecretScope.USER if self.owner else SecretScope.SYSTEM


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A sealed secret, where the key is that opens it, and which keys there are at all."""

    version: SecretVersion
    envelope: Envelope
    key: WrappingKeyRecord
    known_key_ids: frozenset[str]

    @property
    def scope(self) -> SecretScope:
        return SecretScope.USER if self.version.owner else SecretScope.SYSTEM


def validate_secret_name(name: str) -> str:
    """The name, where a secret can have it.

    Raises:
        OperatorError: it cannot.
    """
    if not is_valid_secret_name(name):
        raise OperatorError(
            f"no secret can be called {printable(name, 80)!r}",
            code="secret.bad_name",
            hint=f"use {SECRET_NAME_RULE}, as in api_key",
        )
    return name


def validate_secret_value(text: str, hint: str) -> str:
    """What was typed or sent, where it can be kept; `hint` is for whoever gave nothing.

    Raises:
        OperatorError: it is nothing, or too long.
    """
    if not text:
        raise OperatorError("no value was given, and nothing was changed", code="config.no_value", hint=hint)
    if len(text) > MAX_SECRET_CHARS:
        raise OperatorError(
            f"the value is longer than {MAX_SECRET_CHARS // 1024} KiB",
            code="config.too_large",
            hint="a key or a password is shorter: was another file meant?",
        )
    return text


def active_key(tx: Transaction) -> WrappingKeyRecord | None:
    """The key that secrets are sealed under now; None before the first."""
    row = tx.one("SELECT id, source, salt FROM secret_keys WHERE in_use = 1")
    return _key_record(row) if row is not None else None


def register_pending_key(tx: Transaction, note: WrappingKeyRecord, at: str) -> None:
    """Note a key that is about to be kept, and that nothing may be sealed under yet."""
    tx.execute(
        "INSERT INTO secret_keys (id, source, salt, in_use, made_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (note.id, note.source, note.salt, KEY_PENDING, at),
    )


def activate_first_key(tx: Transaction, note: WrappingKeyRecord) -> WrappingKeyRecord:
    """The key in use: this one, which was announced, unless somebody was quicker."""
    if (known := active_key(tx)) is not None:
        return known
    tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ?", (note.id,))
    return note


def inactive_keys(tx: Transaction, state: int) -> list[WrappingKeyRecord]:
    """The keys that are noted as `REPLACED` or as `ANNOUNCED`, the oldest first."""
    rows = tx.all("SELECT id, source, salt FROM secret_keys WHERE in_use = ? ORDER BY made_at, id", (state,))
    return [_key_record(row) for row in rows]


def delete_key_record(tx: Transaction, key_id: str) -> None:
    """Note a key no more; it was destroyed, or never kept."""
    tx.execute("DELETE FROM secret_keys WHERE id = ? AND in_use <> 1", (key_id,))


def set_secret(
    deed: AuditScope, name: str, owner: str, value: Secret, key: WrappingKey, random: Random
) -> SecretInfo | None:
    """Give a secret a new version. The one before is gone.

    Args:
        deed: The unit of work, whose it is and who does it.
        name: What plugins know it by; see `checked_name`.
        owner: Whose it is; empty for the whole tenant.
        value: What it is from now on.
        key: The key in use.
        random: Chance.

    Returns:
        What may be known of it; None where another key is in use by now, and nothing was done.
    """
    # A write, so that no rotation can take the key out of use before this is committed.
    if not deed.tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ? AND in_use = 1", (key.id,)):
        return None
    place = (deed.tenant, owner, name)
    before = deed.tx.one("SELECT version FROM secrets WHERE tenant = ? AND owner = ? AND name = ?", place)
    version = (before["version"] if before else 0) + 1
    envelope = seal(value, SecretVersion(*place, version), key, random)
    deed.tx.execute(
        "INSERT INTO secrets (tenant, owner, name, version, key_id, wrapped, sealed, set_at, set_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, owner, name) DO UPDATE SET"
        " version = excluded.version, key_id = excluded.key_id, wrapped = excluded.wrapped,"
        " sealed = excluded.sealed, set_at = excluded.set_at, set_by = excluded.set_by",
        (*place, version, key.id, envelope.wrapped, envelope.sealed, deed.now, deed.by),
    )
    scope = SecretScope.USER if owner else SecretScope.SYSTEM
    deed.publish.publish(SecretSet(secret=name, scope=scope.value, version=version, owner=owner or None, by=deed.by))
    return SecretInfo(deed.tenant, owner, name, version, deed.now, deed.by)


def remove_secret(deed: AuditScope, name: str, owner: str) -> SecretInfo:
    """Erase a secret: its data key and its sealed value are overwritten.

    Raises:
        NotFound: there is none.
    """
    found = require_secret(deed.tx, deed.tenant, name, owner)
    deed.tx.execute(
        "UPDATE secrets SET key_id = NULL, wrapped = NULL, sealed = NULL, set_at = ?, set_by = ?"
        " WHERE tenant = ? AND owner = ? AND name = ?",
        (deed.now, deed.by, deed.tenant, owner, name),
    )
    deed.publish.publish(SecretRemoved(secret=name, scope=found.scope.value, owner=owner or None, by=deed.by))
    return found


def remove_owner_secrets(deed: AuditScope, owner: str) -> None:
    """Erase all secrets of a person who goes. Nothing is left that whoever gets the name later could inherit."""
    for found in list_secrets(deed.tx, deed.tenant, owner):
        remove_secret(deed, found.name, owner)
    deed.tx.execute("DELETE FROM secrets WHERE tenant = ? AND owner = ?", (deed.tenant, owner))


def require_secret(tx: Transaction, tenant: str, name: str, owner: str) -> SecretInfo:
    """What may be known of a secret.

    Raises:
        NotFound: there is none.
    """
    row = tx.one(
        f"SELECT {_COLUMNS} FROM secrets WHERE tenant = ? AND owner = ? AND name = ? AND sealed IS NOT NULL",  # noqa: S608
        (tenant, owner, name),
    )
    if row is None:
        whose = f"{owner} has" if owner else "there is"
        raise NotFound(f"{whose} no secret {printable(name, 128)}", code="secret.not_found", hint="paddock secret list")
    return SecretInfo(**row)


def list_secrets(tx: Transaction, tenant: str, owner: str | None = None) -> list[SecretInfo]:
    """A tenant's secrets by name; only one person's, or with an empty owner only the tenant's own."""
    whose, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secrets WHERE tenant = ? AND sealed IS NOT NULL{whose} ORDER BY name, owner",  # noqa: S608
        (tenant, *values),
    )
    return [SecretInfo(**row) for row in rows]


def list_secrets_by_prefix(tx: Transaction, prefix: str) -> list[SecretInfo]:
    """The secrets of every tenant whose name begins so; no person's."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secrets WHERE owner = '' AND sealed IS NOT NULL AND substr(name, 1, ?) = ?"  # noqa: S608
        " ORDER BY tenant, name",
        (len(prefix), prefix),
    )
    return [SecretInfo(**row) for row in rows]


def find_secret(tx: Transaction, tenant: str, person: str | None, name: str, order: LookupOrder) -> SealedSecret | None:
    """The first of these that is set; see `declared.where_to_look`. Without a person there is none of theirs."""
    for scope in order:
        owner = _owner_for_scope(scope, person)
        row = owner is not None and tx.one(
            "SELECT s.version, s.key_id, s.wrapped, s.sealed, k.id, k.source, k.salt FROM secrets s"
            " JOIN secret_keys k ON k.id = s.key_id WHERE s.tenant = ? AND s.owner = ? AND s.name = ?",
            (tenant, owner, name),
        )
        if row:
            about = SecretVersion(tenant, owner or "", name, row["version"])
            noted = frozenset(one["id"] for one in tx.all("SELECT id FROM secret_keys"))
            return SealedSecret(about, read_envelope(row), _key_record(row), noted)
    return None


def existing_secrets(
    tx: Transaction, tenant: str, person: str | None, names: Iterable[str]
) -> set[tuple[str, SecretScope]]:
    """Which of these secrets a person and their tenant have. Nothing is opened."""
    found: set[tuple[str, SecretScope]] = set()
    for name in names:
        for scope in SecretScope:
            owner = _owner_for_scope(scope, person)
            place = (tenant, owner, name)
            if owner is not None and tx.one(
                "SELECT 1 AS found FROM secrets WHERE tenant = ? AND owner = ? AND name = ? AND sealed IS NOT NULL",
                place,
            ):
                found.add((name, scope))
    return found


def _owner_for_scope(scope: SecretScope, person: str | None) -> str | None:
    """As the rows have it; None where there can be no such secret."""
    return "" if scope is SecretScope.SYSTEM else person or None


def read_envelope(row: Row) -> Envelope:
    """The sealed bytes of a row; what is missing of them opens as little as what was changed."""
    return Envelope(row["key_id"], bytes(row["wrapped"] or b""), bytes(row["sealed"] or b""))


def _key_record(row: Row) -> WrappingKeyRecord:
    return WrappingKeyRecord(row["id"], row["source"], bytes(row["salt"]) if row["salt"] is not None else None)

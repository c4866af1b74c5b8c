"""The rows of secrets and wrapping keys. Every function takes the transaction that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.clock import Random
from paddock.core.errors import NotFound, OperatorError
from paddock.core.events.secrets import SecretRemoved, SecretSet
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.secret import SECRET_NAME_RULE, Secret, is_valid_secret_name
from paddock.secrets.envelope import Envelope, SecretVersion, WrappingKey, seal
from paddock.secrets.key_stores import WrappingKeyRecord
from paddock.secrets.requirements import LookupOrder, SecretScope
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Row, Transaction

MAX_SECRET_CHARS = 64 * 1024
KEY_REPLACED, KEY_PENDING = 0, -1  # values of `in_use` for inactive keys
_COLUMNS = "tenant, owner, name, version, set_at, set_by"


class SecretInfo(Struct, frozen=True):
    """The metadata of a secret: everything but its value."""

    tenant: Tenant
    owner: str
    name: str
    version: int
    set_at: str
    set_by: str

    @property
    def scope(self) -> SecretScope:
        return SecretScope.USER if self.owner else SecretScope.SYSTEM


class SealedSecret(Struct, frozen=True):
    """A sealed secret, the record of the key that decrypts it, and the ids of all registered keys."""

    version: SecretVersion
    envelope: Envelope
    key: WrappingKeyRecord
    known_key_ids: frozenset[str]

    @property
    def scope(self) -> SecretScope:
        return SecretScope.USER if self.version.owner else SecretScope.SYSTEM


def validate_secret_name(name: str) -> str:
    """Return the name if it is valid for a secret.

    Raises:
        OperatorError: it is invalid.
    """
    if not is_valid_secret_name(name):
        raise OperatorError(
            f"no secret can be called {printable(name, 80)!r}",
            code="secret.bad_name",
            hint=f"use {SECRET_NAME_RULE}, as in api_key",
        )
    return name


def validate_secret_value(text: str, hint: str) -> str:
    """Return the value if it can be stored; `hint` is for an empty one.

    Raises:
        OperatorError: it is empty or too long.
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
    """Return the active wrapping key; None before the first."""
    row = tx.one("SELECT id, source, salt FROM secret_keys WHERE in_use = 1")
    return _key_record(row) if row is not None else None


def register_pending_key(tx: Transaction, record: WrappingKeyRecord, now: str) -> None:
    """Register a key that is about to be stored, and that nothing may be sealed under yet."""
    tx.execute(
        "INSERT INTO secret_keys (id, source, salt, in_use, made_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (record.id, record.source, record.salt, KEY_PENDING, now),
    )


def activate_first_key(tx: Transaction, record: WrappingKeyRecord) -> WrappingKeyRecord:
    """Activate this pending key, unless another was activated first; return the active one."""
    if (active := active_key(tx)) is not None:
        return active
    tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ?", (record.id,))
    return record


def inactive_keys(tx: Transaction, state: int) -> list[WrappingKeyRecord]:
    """List the keys in state `KEY_REPLACED` or `KEY_PENDING`, oldest first."""
    rows = tx.all("SELECT id, source, salt FROM secret_keys WHERE in_use = ? ORDER BY made_at, id", (state,))
    return [_key_record(row) for row in rows]


def delete_key_record(tx: Transaction, key_id: str) -> None:
    """Delete the record of a key that was destroyed, or never stored."""
    tx.execute("DELETE FROM secret_keys WHERE id = ? AND in_use <> 1", (key_id,))


def set_secret(
    change: AuditedTransaction, name: str, owner: str, value: Secret, key: WrappingKey, random: Random
) -> SecretInfo | None:
    """Store a new version of a secret. It replaces the previous one.

    Args:
        change: The transaction, with tenant and principal.
        name: Its name; see `validate_secret_name`.
        owner: Its owner; empty for the whole tenant.
        value: The new value.
        key: The active key.
        random: For keys and nonces.

    Returns:
        The metadata; None if another key is active by now, and nothing was written.
    """
    # A write, so that no rotation can deactivate the key before this is committed.
    if not change.tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ? AND in_use = 1", (key.id,)):
        return None
    identity = (change.tenant, owner, name)
    previous = change.tx.one("SELECT version FROM secrets WHERE tenant = ? AND owner = ? AND name = ?", identity)
    version = (previous["version"] if previous else 0) + 1
    envelope = seal(value, SecretVersion(*identity, version), key, random)
    change.tx.execute(
        "INSERT INTO secrets (tenant, owner, name, version, key_id, wrapped, sealed, set_at, set_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, owner, name) DO UPDATE SET"
        " version = excluded.version, key_id = excluded.key_id, wrapped = excluded.wrapped,"
        " sealed = excluded.sealed, set_at = excluded.set_at, set_by = excluded.set_by",
        (*identity, version, key.id, envelope.wrapped, envelope.sealed, change.now, change.by),
    )
    scope = SecretScope.USER if owner else SecretScope.SYSTEM
    change.publish.publish(
        SecretSet(secret=name, scope=scope.value, version=version, owner=owner or None, by=change.by)
    )
    return SecretInfo(change.tenant, owner, name, version, change.now, change.by)


def remove_secret(change: AuditedTransaction, name: str, owner: str) -> SecretInfo:
    """Erase a secret: its data key and its sealed value are overwritten.

    Raises:
        NotFound: there is none.
    """
    secret = require_secret(change.tx, change.tenant, name, owner)
    change.tx.execute(
        "UPDATE secrets SET key_id = NULL, wrapped = NULL, sealed = NULL, set_at = ?, set_by = ?"
        " WHERE tenant = ? AND owner = ? AND name = ?",
        (change.now, change.by, change.tenant, owner, name),
    )
    change.publish.publish(SecretRemoved(secret=name, scope=secret.scope.value, owner=owner or None, by=change.by))
    return secret


def remove_owner_secrets(change: AuditedTransaction, owner: str) -> None:
    """Erase all secrets of a removed person, so that a later holder of the name inherits nothing."""
    for secret in list_secrets(change.tx, change.tenant, owner):
        remove_secret(change, secret.name, owner)
    change.tx.execute("DELETE FROM secrets WHERE tenant = ? AND owner = ?", (change.tenant, owner))


def require_secret(tx: Transaction, tenant: str, name: str, owner: str) -> SecretInfo:
    """Return the metadata of a secret.

    Raises:
        NotFound: there is none.
    """
    row = tx.one(
        f"SELECT {_COLUMNS} FROM secrets WHERE tenant = ? AND owner = ? AND name = ? AND sealed IS NOT NULL",  # noqa: S608
        (tenant, owner, name),
    )
    if row is None:
        raise unknown_secret_error(tenant, name, owner)
    return SecretInfo(**row)


def unknown_secret_error(tenant: str, name: str, owner: str = "") -> NotFound:
    """Build the error for a secret that is not set."""
    subject = f"{owner} has" if owner else "there is"
    return NotFound(
        f"{subject} no secret {printable(name, 128)}",
        code="secret.not_found",
        action=Action.of("secret.list", tenant=tenant),
    )


def list_secrets(tx: Transaction, tenant: str, owner: str | None = None) -> list[SecretInfo]:
    """List a tenant's secrets by name; only one person's, or, with an empty owner, only the tenant's own."""
    owner_filter, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secrets WHERE tenant = ? AND sealed IS NOT NULL{owner_filter} ORDER BY name, owner",  # noqa: S608
        (tenant, *values),
    )
    return [SecretInfo(**row) for row in rows]


def list_secrets_by_prefix(tx: Transaction, prefix: str) -> list[SecretInfo]:
    """List the shared secrets of every tenant whose name has this prefix."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secrets WHERE owner = '' AND sealed IS NOT NULL AND substr(name, 1, ?) = ?"  # noqa: S608
        " ORDER BY tenant, name",
        (len(prefix), prefix),
    )
    return [SecretInfo(**row) for row in rows]


def find_secret(tx: Transaction, tenant: str, person: str | None, name: str, order: LookupOrder) -> SealedSecret | None:
    """Find the first secret in this lookup order; see `lookup_order`. Without a person there is none of theirs."""
    for scope in order:
        owner = _owner_for_scope(scope, person)
        row = owner is not None and tx.one(
            "SELECT s.version, s.key_id, s.wrapped, s.sealed, k.id, k.source, k.salt FROM secrets s"
            " JOIN secret_keys k ON k.id = s.key_id WHERE s.tenant = ? AND s.owner = ? AND s.name = ?",
            (tenant, owner, name),
        )
        if row:
            version = SecretVersion(tenant, owner or "", name, row["version"])
            key_ids = frozenset(key["id"] for key in tx.all("SELECT id FROM secret_keys"))
            return SealedSecret(version, read_envelope(row), _key_record(row), key_ids)
    return None


def existing_secrets(
    tx: Transaction, tenant: str, person: str | None, names: Iterable[str]
) -> set[tuple[str, SecretScope]]:
    """Return which of these secrets a person and their tenant have. Nothing is decrypted."""
    existing: set[tuple[str, SecretScope]] = set()
    for name in names:
        for scope in SecretScope:
            owner = _owner_for_scope(scope, person)
            identity = (tenant, owner, name)
            if owner is not None and tx.one(
                "SELECT 1 AS found FROM secrets WHERE tenant = ? AND owner = ? AND name = ? AND sealed IS NOT NULL",
                identity,
            ):
                existing.add((name, scope))
    return existing


def _owner_for_scope(scope: SecretScope, person: str | None) -> str | None:
    """Return the owner as stored in rows; None if there can be no such secret."""
    return "" if scope is SecretScope.SYSTEM else person or None


def read_envelope(row: Row) -> Envelope:
    """Read the sealed bytes of a row; missing ones fail to decrypt like altered ones."""
    return Envelope(row["key_id"], bytes(row["wrapped"] or b""), bytes(row["sealed"] or b""))


def _key_record(row: Row) -> WrappingKeyRecord:
    return WrappingKeyRecord(row["id"], row["source"], bytes(row["salt"]) if row["salt"] is not None else None)

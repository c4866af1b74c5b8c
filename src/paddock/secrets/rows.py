"""Rows of secrets: set, listed, found and removed. Every function takes the unit of work that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from paddock.core.clock import Random
from paddock.core.errors import NotFound, OperatorError
from paddock.core.event import Publish
from paddock.core.events_secrets import SecretRemoved, SecretSet
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.core.secret_name import ALLOWED, possible
from paddock.secrets.declared import Order, Scope
from paddock.secrets.envelope import About, Envelope, WrappingKey, seal
from paddock.secrets.sources import KeyNote
from paddock.store.database import Row, Transaction

LONGEST_VALUE = 64 * 1024
REPLACED, ANNOUNCED = 0, -1  # what `in_use` says of the keys that are not
_COLUMNS = "tenant, owner, name, version, set_at, set_by"


class Deed(Protocol):
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
    def publish(self) -> Publish: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """What may be known of a secret: everything but its value."""

    tenant: Tenant
    owner: str
    name: str
    version: int
    set_at: str
    set_by: str

    @property
    def scope(self) -> Scope:
        return Scope.USER if self.owner else Scope.SYSTEM


@dataclass(frozen=True, slots=True)
class Found:
    """A sealed secret, where the key is that opens it, and which keys there are at all."""

    about: About
    envelope: Envelope
    key: KeyNote
    noted: frozenset[str]

    @property
    def scope(self) -> Scope:
        return Scope.USER if self.about.owner else Scope.SYSTEM


def checked_name(name: str) -> str:
    """The name, where a secret can have it.

    Raises:
        OperatorError: it cannot.
    """
    if not possible(name):
        raise OperatorError(
            f"no secret can be called {printable(name, 80)!r}",
            code="secret.bad_name",
            hint=f"use {ALLOWED}, as in api_key",
        )
    return name


def checked_value(text: str, hint: str) -> str:
    """What was typed or sent, where it can be kept; `hint` is for whoever gave nothing.

    Raises:
        OperatorError: it is nothing, or too long.
    """
    if not text:
        raise OperatorError("no value was given, and nothing was changed", code="config.no_value", hint=hint)
    if len(text) > LONGEST_VALUE:
        raise OperatorError(
            f"the value is longer than {LONGEST_VALUE // 1024} KiB",
            code="config.too_large",
            hint="a key or a password is shorter: was another file meant?",
        )
    return text


def key_in_use(tx: Transaction) -> KeyNote | None:
    """The key that secrets are sealed under now; None before the first."""
    row = tx.one("SELECT id, source, salt FROM secret_keys WHERE in_use = 1")
    return _note(row) if row is not None else None


def announce_key(tx: Transaction, note: KeyNote, at: str) -> None:
    """Note a key that is about to be kept, and that nothing may be sealed under yet."""
    tx.execute(
        "INSERT INTO secret_keys (id, source, salt, in_use, made_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (note.id, note.source, note.salt, ANNOUNCED, at),
    )


def first_key(tx: Transaction, note: KeyNote) -> KeyNote:
    """The key in use: this one, which was announced, unless somebody was quicker."""
    if (known := key_in_use(tx)) is not None:
        return known
    tx.execute("UPDATE secret_keys SET in_use = 1 WHERE id = ?", (note.id,))
    return note


def keys_out_of_use(tx: Transaction, state: int) -> list[KeyNote]:
    """The keys that are noted as `REPLACED` or as `ANNOUNCED`, the oldest first."""
    rows = tx.all("SELECT id, source, salt FROM secret_keys WHERE in_use = ? ORDER BY made_at, id", (state,))
    return [_note(row) for row in rows]


def forget_key(tx: Transaction, key_id: str) -> None:
    """Note a key no more; it was destroyed, or never kept."""
    tx.execute("DELETE FROM secret_keys WHERE id = ? AND in_use <> 1", (key_id,))


def set_secret(deed: Deed, name: str, owner: str, value: Secret, key: WrappingKey, random: Random) -> Listed | None:
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
    envelope = seal(value, About(*place, version), key, random)
    deed.tx.execute(
        "INSERT INTO secrets (tenant, owner, name, version, key_id, wrapped, sealed, set_at, set_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, owner, name) DO UPDATE SET"
        " version = excluded.version, key_id = excluded.key_id, wrapped = excluded.wrapped,"
        " sealed = excluded.sealed, set_at = excluded.set_at, set_by = excluded.set_by",
        (*place, version, key.id, envelope.wrapped, envelope.sealed, deed.now, deed.by),
    )
    scope = Scope.USER if owner else Scope.SYSTEM
    deed.publish.publish(SecretSet(secret=name, scope=scope.value, version=version, owner=owner or None, by=deed.by))
    return Listed(deed.tenant, owner, name, version, deed.now, deed.by)


def remove_secret(deed: Deed, name: str, owner: str) -> Listed:
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


def remove_secrets_of(deed: Deed, owner: str) -> None:
    """Erase all secrets of a person who goes. Nothing is left that whoever gets the name later could inherit."""
    for found in secrets(deed.tx, deed.tenant, owner):
        remove_secret(deed, found.name, owner)
    deed.tx.execute("DELETE FROM secrets WHERE tenant = ? AND owner = ?", (deed.tenant, owner))


def require_secret(tx: Transaction, tenant: str, name: str, owner: str) -> Listed:
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
    return Listed(**row)


def secrets(tx: Transaction, tenant: str, owner: str | None = None) -> list[Listed]:
    """A tenant's secrets by name; only one person's, or with an empty owner only the tenant's own."""
    whose, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secrets WHERE tenant = ? AND sealed IS NOT NULL{whose} ORDER BY name, owner",  # noqa: S608
        (tenant, *values),
    )
    return [Listed(**row) for row in rows]


def secrets_below(tx: Transaction, prefix: str) -> list[Listed]:
    """The secrets of every tenant whose name begins so; no person's."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secrets WHERE owner = '' AND sealed IS NOT NULL AND substr(name, 1, ?) = ?"  # noqa: S608
        " ORDER BY tenant, name",
        (len(prefix), prefix),
    )
    return [Listed(**row) for row in rows]


def find_secret(tx: Transaction, tenant: str, person: str | None, name: str, order: Order) -> Found | None:
    """The first of these that is set; see `declared.where_to_look`. Without a person there is none of theirs."""
    for scope in order:
        owner = _owner(scope, person)
        row = owner is not None and tx.one(
            "SELECT s.version, s.key_id, s.wrapped, s.sealed, k.id, k.source, k.salt FROM secrets s"
            " JOIN secret_keys k ON k.id = s.key_id WHERE s.tenant = ? AND s.owner = ? AND s.name = ?",
            (tenant, owner, name),
        )
        if row:
            about = About(tenant, owner or "", name, row["version"])
            noted = frozenset(one["id"] for one in tx.all("SELECT id FROM secret_keys"))
            return Found(about, envelope_in(row), _note(row), noted)
    return None


def have(tx: Transaction, tenant: str, person: str | None, names: Iterable[str]) -> set[tuple[str, Scope]]:
    """Which of these secrets a person and their tenant have. Nothing is opened."""
    found: set[tuple[str, Scope]] = set()
    for name in names:
        for scope in Scope:
            owner = _owner(scope, person)
            place = (tenant, owner, name)
            if owner is not None and tx.one(
                "SELECT 1 AS found FROM secrets WHERE tenant = ? AND owner = ? AND name = ? AND sealed IS NOT NULL",
                place,
            ):
                found.add((name, scope))
    return found


def _owner(scope: Scope, person: str | None) -> str | None:
    """As the rows have it; None where there can be no such secret."""
    return "" if scope is Scope.SYSTEM else person or None


def envelope_in(row: Row) -> Envelope:
    """The sealed bytes of a row; what is missing of them opens as little as what was changed."""
    return Envelope(row["key_id"], bytes(row["wrapped"] or b""), bytes(row["sealed"] or b""))


def _note(row: Row) -> KeyNote:
    return KeyNote(row["id"], row["source"], bytes(row["salt"]) if row["salt"] is not None else None)

"""API keys: tokens that act for the person they belong to, with a part of what that person may do.

A token is `pdk_`, an id that may be shown, `_`, and 256 bits of chance. Only its hash is kept. It is shown once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import b32encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from paddock.core.call import Principal
from paddock.core.clock import Random
from paddock.core.errors import Conflict, Denied, NotFound, OperatorError
from paddock.core.events.principals import ApiKeyCreated, ApiKeyRevoked
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.principals.name_rules import validate_names
from paddock.principals.people import load_rights, require_person
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Row, Transaction

EXPLICIT_ROLES = frozenset({"operator", "approver"})
"""Roles that a key has only where somebody named them: with the one it does everything, with the other it decides."""

_TOKEN = re.compile(r"pdk_([a-z2-7]{8})_[a-z2-7]{52}")
_DUMMY_HASH = "0" * 64
_LAST_USED_INTERVAL = timedelta(minutes=1)
_COLUMNS = (
    "k.id, k.tenant, k.owner, k.label, k.hash, k.roles, k.scopes, k.created_at, k.created_by, k.expires_at, "
    "k.revoked_at, k.last_used_at, p.disabled AS owner_disabled "
    "FROM api_keys k JOIN people p ON p.tenant = k.tenant AND p.name = k.owner"
)

ApiKeyState = Literal["live", "revoked", "expired", "owner disabled"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: everything but the token. `roles` and `scopes` are what it was made with."""

    id: str
    tenant: Tenant
    owner: str
    label: str
    hash: str
    roles: frozenset[str]
    scopes: frozenset[str]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    owner_disabled: bool

    def state(self, now: datetime) -> ApiKeyState:
        """Whether it works, and why it does not."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now:
            return "expired"
        return "owner disabled" if self.owner_disabled else "live"


def create_key(
    change: AuditedTransaction,
    owner: str,
    random: Random,
    *,
    label: str = "",
    roles: Iterable[str] | None = None,
    scopes: Iterable[str] = (),
    expires_at: datetime | None = None,
) -> tuple[ApiKey, Secret]:
    """A new key of somebody, and its token, which nobody can look up later.

    Args:
        change: In whose tenant it acts.
        owner: The name of the person it acts for.
        random: Where the token comes from.
        label: What it is for.
        roles: Some of the owner's. When left out: all of them but those in `TO_BE_NAMED`.
        scopes: Some of the owner's.
        expires_at: When it stops working.

    Raises:
        NotFound: nobody is called that.
        OperatorError: the owner lacks a role or scope themselves, or the time is over already.
        Conflict: they are disabled.
    """
    person = require_person(change.tx, change.tenant, owner)
    owner, rights = person.name, person.rights
    if person.disabled:
        raise Conflict(
            f"{owner} is disabled, and so would be their key",
            code="person.disabled",
            hint=f"let them act again first: paddock user enable {owner}",
        )
    wanted = rights.roles - EXPLICIT_ROLES if roles is None else validate_names("role", roles)
    opened = validate_names("scope", scopes)
    if beyond := rights.not_held(wanted, opened):
        raise OperatorError(
            f"{owner} does not have {', '.join(beyond)}, and a key never has more than its owner",
            code="api_key.too_much",
            hint=f"give it to them first, or leave it out; see 'paddock user show {owner}'",
        )
    if expires_at is not None and expires_at <= datetime.fromisoformat(change.now):
        raise OperatorError("the key would have expired already", code="api_key.expired", hint="give a later time")
    key_id = b32encode(random.bytes(5)).decode().lower()
    token = f"pdk_{key_id}_{b32encode(random.bytes(32)).decode().lower().rstrip('=')}"
    ends = expires_at.isoformat() if expires_at else None
    told = (tuple(sorted(wanted)), tuple(sorted(opened)))
    change.tx.execute(
        "INSERT INTO api_keys (id, tenant, owner, label, hash, roles, scopes, created_at, created_by, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(key_id, change.tenant, owner, label, _hash_key(token), json.dumps(told[0]), json.dumps(told[1])),
            *(change.now, change.by, ends),
        ),
    )
    change.publish.publish(ApiKeyCreated(key_id, f"user:{owner}", *told, ends, change.by))
    return require_key(change.tx, change.tenant, key_id), Secret(token)


def authenticate_key(tx: Transaction, token: str, now: datetime, *, tenant: str | None = None) -> Principal:
    """Whom a token proves its holder to be, with what they may do right now.

    Args:
        tx: Where keys are kept; nothing is written.
        token: As it came.
        now: The time, in UTC.
        tenant: The only one whose keys are taken, where not all are.

    Raises:
        Denied: `auth.refused`, in the same words whatever is wrong with it.
    """
    found = _TOKEN.fullmatch(token)
    key = _find_key(tx, found[1]) if found else None
    # Hashed and compared in every case, so that the time taken does not tell which ids exist.
    same = hmac.compare_digest(_hash_key(token), key.hash if key else _DUMMY_HASH)
    if key is None or not same or key.state(now) != "live" or tenant not in (None, key.tenant):
        raise Denied(
            "this key is not taken here", code="auth.refused", hint="ask whoever gave it to you for one that works"
        )
    return key_principal(tx, key)


def key_principal(tx: Transaction, key: ApiKey) -> Principal:
    """Who acts with a key. Roles and scopes that its owner has lost are lost to it too."""
    rights = load_rights(tx, key.tenant, key.owner).restrict(key.roles, key.scopes)
    return Principal(
        PrincipalId(f"key:{key.id}"),
        rights.scopes,
        rights.roles,
        kind="key",
        groups=rights.groups,
        tenant=key.tenant,
        owner=PrincipalId(f"user:{key.owner}"),
    )


def record_key_use(tx: Transaction, key: str, now: datetime) -> bool:
    """Keep when a key was last used, to the minute; whether anything had to be written."""
    row = tx.one("SELECT last_used_at FROM api_keys WHERE id = ?", (key.removeprefix("key:"),))
    if row is None or (row["last_used_at"] and now - datetime.fromisoformat(row["last_used_at"]) < _LAST_USED_INTERVAL):
        return False
    tx.execute("UPDATE api_keys SET last_used_at = ? WHERE id = ?", (now.isoformat(), key.removeprefix("key:")))
    return True


def list_keys(tx: Transaction, tenant: str, owner: str | None = None) -> list[ApiKey]:
    """The keys of a tenant, or of one person of it, oldest first."""
    rows = tx.all(f"SELECT {_COLUMNS} WHERE k.tenant = ? ORDER BY k.created_at, k.id", (tenant,))
    return [key for row in rows if owner in (None, (key := _key_from_row(row)).owner)]


def require_key(tx: Transaction, tenant: str, wanted: str) -> ApiKey:
    """The key of that id, with or without `key:` before it.

    Raises:
        NotFound: the tenant has none.
    """
    key = _find_key(tx, wanted.removeprefix("key:"))
    if key is None or key.tenant != tenant:
        # A whole token may have been typed: only what can be an id is repeated.
        named = repr(printable(wanted)) if len(wanted) <= 20 else "that id"
        raise NotFound(f"no key has {named}", code="api_key.not_found", hint="see 'paddock apikey list'")
    return key


def revoke_key(change: AuditedTransaction, wanted: str) -> ApiKey:
    """Have a key work no more. One that was revoked before stays as it is.

    Raises:
        NotFound: there is none of that id.
    """
    key = require_key(change.tx, change.tenant, wanted)
    if key.revoked_at is None:
        change.tx.execute("UPDATE api_keys SET revoked_at = ? WHERE id = ?", (change.now, key.id))
        change.publish.publish(ApiKeyRevoked(key.id, f"user:{key.owner}", change.by))
    return require_key(change.tx, change.tenant, key.id)


def _find_key(tx: Transaction, key_id: str) -> ApiKey | None:
    row = tx.one(f"SELECT {_COLUMNS} WHERE k.id = ?", (key_id,))  # our own columns
    return _key_from_row(row) if row else None


def _key_from_row(row: Row) -> ApiKey:
    words = {column: frozenset[str](json.loads(row[column])) for column in ("roles", "scopes")}
    facts: Row = {**row, **words, "owner_disabled": bool(row["owner_disabled"])}
    return ApiKey(**facts)


def _hash_key(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()

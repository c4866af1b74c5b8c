"""API keys: tokens that act for their owner with a part of the owner's rights.

A token is `pdk_`, an id that may be shown, `_`, and 256 random bits. Only its hash is stored. It is shown once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import b32encode
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from paddock.core.action import Action
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
"""Roles that a key has only if named explicitly: an operator can do everything, and an approver decides."""

_TOKEN = re.compile(r"pdk_([a-z2-7]{8})_[a-z2-7]{52}")
_DUMMY_HASH = "0" * 64
_LAST_USED_INTERVAL = timedelta(minutes=1)
_COLUMNS = (
    "k.id, k.tenant, k.owner, k.label, k.hash, k.roles, k.scopes, k.created_at, k.created_by, k.expires_at, "
    "k.revoked_at, k.last_used_at, p.disabled AS owner_disabled "
    "FROM api_keys k JOIN people p ON p.tenant = k.tenant AND p.name = k.owner"
)

ApiKeyState = Literal["live", "revoked", "expired", "owner disabled"]


class ApiKey(Struct, frozen=True):
    """A stored key: everything but the token. `roles` and `scopes` are those it was created with."""

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
        """Return whether it is usable, and if not, why."""
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
    """Create a key of a person; return it with its token, which cannot be looked up later.

    Args:
        change: The transaction, with the tenant.
        owner: The name of the person it acts for.
        random: The source of the token.
        label: Its purpose.
        roles: Some of the owner's. When left out: all of them but those in `EXPLICIT_ROLES`.
        scopes: Some of the owner's.
        expires_at: When it expires.

    Raises:
        NotFound: no such person.
        OperatorError: the owner lacks a role or scope, or the expiry is in the past.
        Conflict: the owner is disabled.
    """
    person = require_person(change.tx, change.tenant, owner)
    owner, rights = person.name, person.rights
    if person.disabled:
        raise Conflict(
            f"{owner} is disabled, so a key of theirs would not work",
            code="person.disabled",
            action=Action.of("user.enable", user=owner, tenant=change.tenant),
        )
    key_roles = rights.roles - EXPLICIT_ROLES if roles is None else validate_names("role", roles)
    key_scopes = validate_names("scope", scopes)
    if excess := rights.not_held(key_roles, key_scopes):
        raise OperatorError(
            f"{owner} does not have {', '.join(excess)}, and a key cannot have more than its owner",
            code="api_key.too_much",
            hint="give it to the owner first, or leave it out",
            action=Action.of("user.show", user=owner, tenant=change.tenant),
        )
    if expires_at is not None and expires_at <= datetime.fromisoformat(change.now):
        raise OperatorError("the expiry of the key is in the past", code="api_key.expired", hint="choose a later time")
    key_id = b32encode(random.bytes(5)).decode().lower()
    token = f"pdk_{key_id}_{b32encode(random.bytes(32)).decode().lower().rstrip('=')}"
    expiry = expires_at.isoformat() if expires_at else None
    rights_fields = (tuple(sorted(key_roles)), tuple(sorted(key_scopes)))
    change.tx.execute(
        "INSERT INTO api_keys (id, tenant, owner, label, hash, roles, scopes, created_at, created_by, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(key_id, change.tenant, owner, label, _hash_key(token)),
            *(json.dumps(rights_fields[0]), json.dumps(rights_fields[1]), change.now, change.by, expiry),
        ),
    )
    change.publish.publish(ApiKeyCreated(key_id, f"user:{owner}", *rights_fields, expiry, change.by))
    return require_key(change.tx, change.tenant, key_id), Secret(token)


def authenticate_key(tx: Transaction, token: str, now: datetime, *, tenant: str | None = None) -> Principal:
    """Authenticate a token; return its principal with its current rights.

    Args:
        tx: The transaction; nothing is written.
        token: The token as it was received.
        now: The time, in UTC.
        tenant: Accept only keys of this tenant, if given.

    Raises:
        Denied: `auth.refused`, with the same message whatever the reason.
    """
    match = _TOKEN.fullmatch(token)
    key = _find_key(tx, match[1]) if match else None
    # Hashed and compared in every case, so that the timing does not reveal which ids exist.
    hash_matches = hmac.compare_digest(_hash_key(token), key.hash if key else _DUMMY_HASH)
    if key is None or not hash_matches or key.state(now) != "live" or tenant not in (None, key.tenant):
        raise Denied("invalid API key", code="auth.refused", hint="ask an operator of this host for a valid key")
    return key_principal(tx, key)


def key_principal(tx: Transaction, key: ApiKey) -> Principal:
    """Return the principal of a key. It loses the roles and scopes that its owner loses."""
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
    """Record when a key was last used, to the minute; return whether anything was written."""
    row = tx.one("SELECT last_used_at FROM api_keys WHERE id = ?", (key.removeprefix("key:"),))
    if row is None or (row["last_used_at"] and now - datetime.fromisoformat(row["last_used_at"]) < _LAST_USED_INTERVAL):
        return False
    tx.execute("UPDATE api_keys SET last_used_at = ? WHERE id = ?", (now.isoformat(), key.removeprefix("key:")))
    return True


def list_keys(tx: Transaction, tenant: str, owner: str | None = None) -> list[ApiKey]:
    """List the keys of a tenant, or of one person of it, oldest first."""
    rows = tx.all(f"SELECT {_COLUMNS} WHERE k.tenant = ? ORDER BY k.created_at, k.id", (tenant,))
    return [key for row in rows if owner in (None, (key := _key_from_row(row)).owner)]


def require_key(tx: Transaction, tenant: str, key_id: str) -> ApiKey:
    """Return the key of an id, with or without the prefix `key:`.

    Raises:
        NotFound: the tenant has no such key.
    """
    key = _find_key(tx, key_id.removeprefix("key:"))
    if key is None or key.tenant != tenant:
        raise unknown_key_error(tenant, key_id)
    return key


def unknown_key_error(tenant: str, key_id: str) -> NotFound:
    """Build the error for an unknown key, and for one that the principal may not see."""
    # A whole token may have been typed: repeat it only if it can be an id.
    shown = repr(printable(key_id)) if len(key_id) <= 20 else "with that id"
    return NotFound(
        f"there is no API key {shown}", code="api_key.not_found", action=Action.of("apikey.list", tenant=tenant)
    )


def revoke_key(change: AuditedTransaction, key_id: str) -> ApiKey:
    """Revoke a key. One that was revoked before is left as it is.

    Raises:
        NotFound: there is no such key.
    """
    key = require_key(change.tx, change.tenant, key_id)
    if key.revoked_at is None:
        change.tx.execute("UPDATE api_keys SET revoked_at = ? WHERE id = ?", (change.now, key.id))
        change.publish.publish(ApiKeyRevoked(key.id, f"user:{key.owner}", change.by))
    return require_key(change.tx, change.tenant, key.id)


def _find_key(tx: Transaction, key_id: str) -> ApiKey | None:
    row = tx.one(f"SELECT {_COLUMNS} WHERE k.id = ?", (key_id,))  # our own columns
    return _key_from_row(row) if row else None


def _key_from_row(row: Row) -> ApiKey:
    sets = {column: frozenset[str](json.loads(row[column])) for column in ("roles", "scopes")}
    fields: Row = {**row, **sets, "owner_disabled": bool(row["owner_disabled"])}
    return ApiKey(**fields)


def _hash_key(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()

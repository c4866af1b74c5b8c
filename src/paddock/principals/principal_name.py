"""Principals by name: `user:ann`, `key:…`, `token:ann`, `agent:…`, `adapter:…`, `plugin:…`, `local:…`.

A name proves nothing. Only the operator of the host, who may act for anybody, is allowed to name others.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.call import OPERATOR, Principal, PrincipalKind
from paddock.core.errors import Denied, OperatorError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.principals.api_keys import key_principal, require_key
from paddock.principals.identities import token_principal
from paddock.principals.people import Person, require_person
from paddock.principals.tenants import require_tenant
from paddock.store.transaction import Transaction

PRINCIPAL_KINDS: dict[str, PrincipalKind] = {
    "user": "person",
    "key": "key",
    "token": "key",
    "agent": "agent",
    "adapter": "adapter",
    "plugin": "plugin",
    "local": "local",
}
"""The kind of principal, by the prefix of its name."""

_NAME = re.compile(r"(?:([a-z0-9-]{1,63})/)?([a-z]+):([!-~]{1,200})")


class PrincipalName(NamedTuple):
    """A parsed principal name."""

    tenant: Tenant
    prefix: str
    name: str

    @property
    def id(self) -> PrincipalId:
        return PrincipalId(f"{self.prefix}:{self.name}")


def parse_principal_name(text: str, tenant: str = DEFAULT_TENANT) -> PrincipalName:
    """Parse a name as people write it; `acme/user:ann` is Ann of another tenant.

    Raises:
        OperatorError: it is not a principal name.
    """
    match = _NAME.fullmatch(text)
    if match is None or match[2] not in PRINCIPAL_KINDS:
        suggestion = f"write user:{text}" if text.isascii() and text.isalnum() else "write for instance user:ann"
        raise OperatorError(
            f"{printable(text, 80)!r} is not a principal's name",
            code="principal.unclear",
            hint=f"{suggestion}; the first word is one of {', '.join(PRINCIPAL_KINDS)}",
        )
    return PrincipalName(Tenant(match[1] or tenant), match[2], match[3])


def resolve_principal(
    tx: Transaction, name: str, tenant: str, now: datetime, *, interactive: bool = False
) -> Principal:
    """Resolve a principal by name, with its current roles, scopes and groups.

    Args:
        tx: The transaction; nothing is written.
        name: As in `user:ann`.
        tenant: The tenant, where the name does not say.
        now: The time, in UTC.
        interactive: Whether a human at a terminal or console was authenticated. A key is never interactive.

    Raises:
        OperatorError: it is not a principal name.
        NotFound: no such principal or tenant.
        Denied: they may no longer act.
    """
    parsed = parse_principal_name(name, tenant)
    require_tenant(tx, parsed.tenant)
    match parsed.prefix:
        case "user":
            return _person_principal(tx, parsed, interactive=interactive)
        case "key":
            return _api_key_principal(tx, parsed, now)
        case "token":
            # The token's scopes are not stored; a principal resolved by name was admitted with them before.
            person = _require_enabled(tx, parsed)
            return token_principal(person, frozenset(), person.rights.scopes)
        case "local":
            operator = Principal(parsed.id, roles=frozenset({OPERATOR}), kind="local", tenant=parsed.tenant)
            return replace(operator, interactive=interactive)
        case _:
            # Rules refer to these by name: they have no roles and no scopes.
            return Principal(parsed.id, kind=PRINCIPAL_KINDS[parsed.prefix], tenant=parsed.tenant)


def _person_principal(tx: Transaction, parsed: PrincipalName, *, interactive: bool) -> Principal:
    person = _require_enabled(tx, parsed)
    rights = person.rights
    return Principal(
        person.id,
        rights.scopes,
        rights.roles,
        groups=rights.groups,
        interactive=interactive,
        tenant=person.tenant,
    )


def _require_enabled(tx: Transaction, parsed: PrincipalName) -> Person:
    person = require_person(tx, parsed.tenant, parsed.name)
    if person.disabled:
        enable = Action.of("user.enable", user=person.name, tenant=parsed.tenant)
        raise _inactive_error(parsed, "disabled", enable)
    return person


def _api_key_principal(tx: Transaction, parsed: PrincipalName, now: datetime) -> Principal:
    key = require_key(tx, parsed.tenant, parsed.name)
    state = key.state(now)
    if state != "live":
        reason = f"not valid: its owner {key.owner} is disabled" if state == "owner disabled" else state
        add_key = Action.of("apikey.add", owner=key.owner, tenant=parsed.tenant)
        raise _inactive_error(parsed, reason, add_key)
    return key_principal(tx, key)


def _inactive_error(parsed: PrincipalName, reason: str, action: Action) -> Denied:
    return Denied(f"{parsed.id} is {reason}", code="principal.ended", action=action)

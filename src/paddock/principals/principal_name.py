"""Whoever can act, by name: `user:ann`, `key:…`, `token:ann`, `agent:…`, `adapter:…`, `plugin:…`, `local:…`.

A name proves nothing. Only somebody who may act for anybody, the operator of the host, is let name others.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

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
"""What the first word of a name says that somebody is."""

_NAME = re.compile(r"(?:([a-z0-9-]{1,63})/)?([a-z]+):([!-~]{1,200})")


class PrincipalName(NamedTuple):
    """A name that was taken apart."""

    tenant: Tenant
    prefix: str
    name: str

    @property
    def id(self) -> PrincipalId:
        return PrincipalId(f"{self.prefix}:{self.name}")


def parse_principal_name(written: str, tenant: str = DEFAULT_TENANT) -> PrincipalName:
    """A name as people write it; `acme/user:ann` is Ann of another tenant.

    Raises:
        OperatorError: it is none.
    """
    found = _NAME.fullmatch(written)
    if found is None or found[2] not in PRINCIPAL_KINDS:
        close = f"write user:{written}" if written.isascii() and written.isalnum() else "write for instance user:ann"
        raise OperatorError(
            f"{printable(written, 80)!r} names nobody who can act",
            code="principal.unclear",
            hint=f"{close}; the first word is one of {', '.join(PRINCIPAL_KINDS)}",
        )
    return PrincipalName(Tenant(found[1] or tenant), found[2], found[3])


def resolve_principal(
    tx: Transaction, name: str, tenant: str, now: datetime, *, interactive: bool = False
) -> Principal:
    """Whoever goes by this name, with the roles, scopes and groups that they have right now.

    Args:
        tx: Where people and keys are kept; nothing is written.
        name: As in `user:ann`.
        tenant: Whose Ann it is, where the name does not say.
        now: The time, in UTC.
        interactive: Whether they were proven to be a human at a terminal or console. A key never is.

    Raises:
        OperatorError: that is no name.
        NotFound: nobody has it, or there is no such tenant.
        Denied: they may not act any more.
    """
    subject = parse_principal_name(name, tenant)
    require_tenant(tx, subject.tenant)
    match subject.prefix:
        case "user":
            return _person_principal(tx, subject, interactive=interactive)
        case "key":
            return _api_key_principal(tx, subject, now)
        case "token":
            # Which scopes the token had is not known any more; whoever asks by name was let in with them before.
            person = _require_enabled(tx, subject)
            return token_principal(person, frozenset(), person.rights.scopes)
        case "local":
            operator = Principal(subject.id, roles=frozenset({OPERATOR}), kind="local", tenant=subject.tenant)
            return replace(operator, interactive=interactive)
        case _:
            # What these may do is said in rules, by name: they have no roles, and nobody gives them scopes.
            return Principal(subject.id, kind=PRINCIPAL_KINDS[subject.prefix], tenant=subject.tenant)


def _person_principal(tx: Transaction, subject: PrincipalName, *, interactive: bool) -> Principal:
    person = _require_enabled(tx, subject)
    rights = person.rights
    return Principal(
        person.id,
        rights.scopes,
        rights.roles,
        groups=rights.groups,
        interactive=interactive,
        tenant=person.tenant,
    )


def _require_enabled(tx: Transaction, subject: PrincipalName) -> Person:
    person = require_person(tx, subject.tenant, subject.name)
    if person.disabled:
        raise _inactive_error(subject, "disabled", f"let them act again: paddock user enable {person.name}")
    return person


def _api_key_principal(tx: Transaction, subject: PrincipalName, now: datetime) -> Principal:
    key = require_key(tx, subject.tenant, subject.name)
    state = key.state(now)
    if state != "live":
        why = f"no good any more: its owner {key.owner} is disabled" if state == "owner disabled" else state
        raise _inactive_error(subject, why, f"make another: paddock apikey create {key.owner}")
    return key_principal(tx, key)


def _inactive_error(subject: PrincipalName, why: str, hint: str) -> Denied:
    return Denied(f"{subject.id} is {why}", code="principal.ended", hint=hint)

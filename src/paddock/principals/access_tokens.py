"""Programs that act for a person with an access token of an identity provider: `token:ann`.

Like a key, a token has a part of what its person may do, is an operator or approver only where it says so, and is no
human who could answer.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from paddock.core.call import Principal
from paddock.core.errors import Denied
from paddock.core.ids import PrincipalId
from paddock.principals.api_keys import TO_BE_NAMED
from paddock.principals.identities import Identity, find_identified
from paddock.principals.people import Person
from paddock.store.transaction import Transaction


def holder_of(
    tx: Transaction,
    tenant: str,
    identity: Identity,
    name: str | None,
    roles: AbstractSet[str],
    scopes: AbstractSet[str],
) -> Principal:
    """Who acts with a token, by what it says of its person.

    Raises:
        Denied: `auth.refused`, where nobody here is that person or they may not act.
    """
    person = find_identified(tx, tenant, identity, name)
    if person is None or person.disabled:
        raise Denied(
            "whoever this token is for may not act here",
            code="auth.refused",
            hint="sign in once, or ask whoever operates this host: paddock user identity NAME --subject SUBJECT",
        )
    return holder(person, roles, scopes)


def holder(person: Person, roles: AbstractSet[str], scopes: AbstractSet[str]) -> Principal:
    """Who acts with a token of somebody that stands for these, as far as they have them themselves."""
    rights = person.rights.within(person.rights.roles - TO_BE_NAMED | roles, frozenset(scopes))
    return Principal(
        PrincipalId(f"token:{person.name}"),
        rights.scopes,
        rights.roles,
        kind="key",
        groups=rights.groups,
        tenant=person.tenant,
        owner=person.id,
    )

"""Who people are at an identity provider: its name for somebody, which stays when their address or name changes.

Somebody is found by it from their second sign-in on, so an address that the provider gives to another one later opens
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from paddock.core.call import Principal
from paddock.core.errors import Conflict, Denied, NotFound
from paddock.core.events.principals import IdentityLinked
from paddock.core.ids import PrincipalId
from paddock.core.printable import printable
from paddock.principals.api_keys import EXPLICIT_ROLES
from paddock.principals.groups import add_group, change_member, list_groups
from paddock.principals.people import Person, add_person, change_rights, find_person, require_person
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

OIDC_PRINCIPAL = PrincipalId("adapter:oidc")
"""Who changes what people may do, on a provider's word."""


@dataclass(frozen=True, slots=True)
class ExternalIdentity:
    """Somebody at a provider: its name for itself, and the name that it has for them for ever."""

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True)
class SignInProfile:
    """Somebody whom a provider vouches for, in our words.

    Attributes:
        identity: Who they are there.
        name: The person that they say they are; None where the provider says nothing that counts.
        display_name: What people read.
        roles: Those that the provider gives them, of `roles_of_provider`, which are its to give and take.
        groups: Likewise.
    """

    identity: ExternalIdentity
    name: str | None
    display_name: str = ""
    roles: frozenset[str] = frozenset()
    managed_roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    managed_groups: frozenset[str] = frozenset()


def find_linked_person(tx: Transaction, tenant: str, identity: ExternalIdentity, name: str | None) -> Person | None:
    """The person with this identity; else the one of this name, unless they have another at that provider."""
    row = tx.one(
        "SELECT person FROM person_identities WHERE tenant = ? AND issuer = ? AND subject = ?",
        (tenant, identity.issuer, identity.subject),
    )
    if row is not None:
        return find_person(tx, tenant, row["person"])
    person = None if name is None else find_person(tx, tenant, name)
    return None if person is None or linked_subject(tx, person, identity.issuer) is not None else person


def linked_subject(tx: Transaction, person: Person, issuer: str) -> str | None:
    """Who somebody is at a provider, where that is known."""
    row = tx.one(
        "SELECT subject FROM person_identities WHERE tenant = ? AND person = ? AND issuer = ?",
        (person.tenant, person.name, issuer),
    )
    return row["subject"] if row else None


def sign_in_person(change: AuditedTransaction, arrival: SignInProfile, *, create: bool) -> Person:
    """The person who signs in, with the roles and groups that the provider gives them from now on.

    Raises:
        Denied: nobody here is that person, or they may not act.
        OperatorError: what the provider calls them, or a role or group, is no name that there can be.
    """
    person = find_linked_person(change.tx, change.tenant, arrival.identity, arrival.name)
    if person is None:
        person = _create_person(change, arrival, create=create)
    if person.disabled:
        raise Denied(
            f"{person.id} is disabled",
            code="principal.ended",
            hint=f"let them act again: paddock user enable {person.name}",
        )
    if linked_subject(change.tx, person, arrival.identity.issuer) is None:
        link_identity(change, person.name, arrival.identity)
    lost = arrival.managed_roles - arrival.roles
    person = change_rights(change, person.name, "roles", add=arrival.roles, remove=lost)
    _sync_groups(change, person, arrival)
    return require_person(change.tx, change.tenant, person.name)


def link_identity(change: AuditedTransaction, name: str, identity: ExternalIdentity) -> Person:
    """Note who somebody is at a provider.

    Raises:
        NotFound: nobody is called that.
        Conflict: they are somebody else there, or somebody else is that.
    """
    person = require_person(change.tx, change.tenant, name)
    made = change.tx.execute(
        "INSERT INTO person_identities (tenant, person, issuer, subject, linked_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (change.tenant, person.name, identity.issuer, identity.subject, change.now),
    )
    if not made and linked_subject(change.tx, person, identity.issuer) != identity.subject:
        raise Conflict(
            f"{person.id} is somebody else at {printable(identity.issuer)}, or somebody else is that",
            code="identity.taken",
            hint=f"see 'paddock user show {person.name}'; to forget it: paddock user identity {person.name} --remove",
        )
    if made:
        change.publish.publish(IdentityLinked(person.id, identity.issuer, "linked", change.by))
    return person


def unlink_identity(change: AuditedTransaction, name: str, issuer: str) -> Person:
    """Forget who somebody is at a provider: whoever signs in there under their name next is taken for them.

    Raises:
        NotFound: nobody is called that, or nothing is known.
    """
    person = require_person(change.tx, change.tenant, name)
    gone = change.tx.execute(
        "DELETE FROM person_identities WHERE tenant = ? AND person = ? AND issuer = ?",
        (change.tenant, person.name, issuer),
    )
    if not gone:
        raise NotFound(
            f"{person.id} has not signed in through {printable(issuer)}",
            code="identity.not_found",
            hint=f"see 'paddock user show {person.name}'",
        )
    change.publish.publish(IdentityLinked(person.id, issuer, "unlinked", change.by))
    return person


def list_identities(tx: Transaction, person: Person) -> list[ExternalIdentity]:
    """Everything that is known of who somebody is elsewhere."""
    rows = tx.all(
        "SELECT issuer, subject FROM person_identities WHERE tenant = ? AND person = ? ORDER BY issuer",
        (person.tenant, person.name),
    )
    return [ExternalIdentity(**row) for row in rows]


def _create_person(change: AuditedTransaction, arrival: SignInProfile, *, create: bool) -> Person:
    taken = arrival.name is not None and find_person(change.tx, change.tenant, arrival.name) is not None
    if create and arrival.name is not None and not taken:
        return add_person(change, arrival.name, display_name=arrival.display_name)
    raise Denied(
        "whoever signed in is nobody here" if not taken else "somebody else signs in under that name",
        code="sign_in.unknown" if not taken else "sign_in.other_identity",
        hint="ask whoever operates this host to add you: paddock user add NAME"
        if not taken
        else "where the provider has a new name for the same person: paddock user identity NAME --remove",
    )


def _sync_groups(change: AuditedTransaction, person: Person, arrival: SignInProfile) -> None:
    for name in sorted(arrival.groups - person.rights.groups):
        if name not in _group_names(change):
            add_group(change, name)
        change_member(change, name, person.name)
    for name in sorted((arrival.managed_groups - arrival.groups) & person.rights.groups):
        change_member(change, name, person.name, remove=True)


def _group_names(change: AuditedTransaction) -> Iterable[str]:
    return {group.name for group in list_groups(change.tx, change.tenant)}


def find_token_principal(
    tx: Transaction,
    tenant: str,
    identity: ExternalIdentity,
    name: str | None,
    roles: AbstractSet[str],
    scopes: AbstractSet[str],
) -> Principal:
    """Who acts with a token, by what it says of its person.

    Raises:
        Denied: `auth.refused`, where nobody here is that person or they may not act.
    """
    person = find_linked_person(tx, tenant, identity, name)
    if person is None or person.disabled:
        raise Denied(
            "whoever this token is for may not act here",
            code="auth.refused",
            hint="sign in once, or ask whoever operates this host: paddock user identity NAME --subject SUBJECT",
        )
    return token_principal(person, roles, scopes)


def token_principal(person: Person, roles: AbstractSet[str], scopes: AbstractSet[str]) -> Principal:
    """Who acts with a token of somebody that stands for these, as far as they have them themselves."""
    rights = person.rights.restrict(person.rights.roles - EXPLICIT_ROLES | roles, frozenset(scopes))
    return Principal(
        PrincipalId(f"token:{person.name}"),
        rights.scopes,
        rights.roles,
        kind="key",
        groups=rights.groups,
        tenant=person.tenant,
        owner=person.id,
    )

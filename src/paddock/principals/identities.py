"""Links between people and their identities at an OIDC provider: issuer and subject, which never change.

From the second sign-in on a person is found by that link, so an address or name that the provider later gives to
somebody else grants nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from msgspec import Struct

from paddock.core.action import Action
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
"""The principal that changes people's rights on behalf of a provider."""


class ExternalIdentity(Struct, frozen=True):
    """An identity at a provider: its issuer, and the permanent subject there."""

    issuer: str
    subject: str


class SignInProfile(Struct, frozen=True):
    """The profile of a person that a provider authenticated, mapped to our names.

    Attributes:
        identity: Their identity at the provider.
        name: The name of the person here; None if the provider's claims yield none.
        display_name: The name for people to read.
        roles: The roles that the provider grants, out of `managed_roles`, which it may grant and revoke.
        groups: The groups, likewise out of `managed_groups`.
    """

    identity: ExternalIdentity
    name: str | None
    display_name: str = ""
    roles: frozenset[str] = frozenset()
    managed_roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    managed_groups: frozenset[str] = frozenset()


def find_linked_person(tx: Transaction, tenant: str, identity: ExternalIdentity, name: str | None) -> Person | None:
    """Find the person linked to this identity; else the one of this name, unless linked to another at that provider."""
    row = tx.one(
        "SELECT person FROM person_identities WHERE tenant = ? AND issuer = ? AND subject = ?",
        (tenant, identity.issuer, identity.subject),
    )
    if row is not None:
        return find_person(tx, tenant, row["person"])
    person = None if name is None else find_person(tx, tenant, name)
    return None if person is None or linked_subject(tx, person, identity.issuer) is not None else person


def linked_subject(tx: Transaction, person: Person, issuer: str) -> str | None:
    """Return a person's subject at a provider, if they are linked."""
    row = tx.one(
        "SELECT subject FROM person_identities WHERE tenant = ? AND person = ? AND issuer = ?",
        (person.tenant, person.name, issuer),
    )
    return row["subject"] if row else None


def sign_in_person(change: AuditedTransaction, profile: SignInProfile, *, create: bool) -> Person:
    """Return the person who signs in, after applying the roles and groups that the provider grants.

    Raises:
        Denied: no person here has that identity, or they may not act.
        OperatorError: the person's name, a role or a group is invalid here.
    """
    person = find_linked_person(change.tx, change.tenant, profile.identity, profile.name)
    if person is None:
        person = _create_person(change, profile, create=create)
    if person.disabled:
        raise Denied(
            f"{person.id} is disabled",
            code="principal.ended",
            action=Action.of("user.enable", user=person.name, tenant=change.tenant),
        )
    if linked_subject(change.tx, person, profile.identity.issuer) is None:
        link_identity(change, person.name, profile.identity)
    revoked_roles = profile.managed_roles - profile.roles
    person = change_rights(change, person.name, "roles", add=profile.roles, remove=revoked_roles)
    _sync_groups(change, person, profile)
    return require_person(change.tx, change.tenant, person.name)


def link_identity(change: AuditedTransaction, name: str, identity: ExternalIdentity) -> Person:
    """Link a person to an identity at a provider.

    Raises:
        NotFound: no such person.
        Conflict: they are linked to another identity there, or another person is linked to this one.
    """
    person = require_person(change.tx, change.tenant, name)
    linked = change.tx.execute(
        "INSERT INTO person_identities (tenant, person, issuer, subject, linked_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (change.tenant, person.name, identity.issuer, identity.subject, change.now),
    )
    if not linked and linked_subject(change.tx, person, identity.issuer) != identity.subject:
        raise Conflict(
            f"{person.id} is linked to another identity at {printable(identity.issuer)}, or another user is linked to"
            " this one",
            code="identity.taken",
            action=Action.of("user.identity.remove", user=person.name),
        )
    if linked:
        change.publish.publish(IdentityLinked(person.id, identity.issuer, "linked", change.by))
    return person


def unlink_identity(change: AuditedTransaction, name: str, issuer: str) -> Person:
    """Unlink a person from a provider: the next to sign in there under their name is linked instead.

    Raises:
        NotFound: no such person, or they are not linked.
    """
    person = require_person(change.tx, change.tenant, name)
    deleted = change.tx.execute(
        "DELETE FROM person_identities WHERE tenant = ? AND person = ? AND issuer = ?",
        (change.tenant, person.name, issuer),
    )
    if not deleted:
        raise NotFound(
            f"{person.id} has not signed in through {printable(issuer)}",
            code="identity.not_found",
            action=Action.of("user.show", user=person.name, tenant=change.tenant),
        )
    change.publish.publish(IdentityLinked(person.id, issuer, "unlinked", change.by))
    return person


def list_identities(tx: Transaction, person: Person) -> list[ExternalIdentity]:
    """List the identities of a person at all providers."""
    rows = tx.all(
        "SELECT issuer, subject FROM person_identities WHERE tenant = ? AND person = ? ORDER BY issuer",
        (person.tenant, person.name),
    )
    return [ExternalIdentity(**row) for row in rows]


def _create_person(change: AuditedTransaction, profile: SignInProfile, *, create: bool) -> Person:
    taken = profile.name is not None and find_person(change.tx, change.tenant, profile.name) is not None
    if create and profile.name is not None and not taken:
        return add_person(change, profile.name, display_name=profile.display_name)
    if taken:
        raise Denied(
            "another identity is linked to the account of that name",
            code="sign_in.other_identity",
            hint="if the provider renamed the person, an operator of this host has to unlink the old identity",
            action=Action.of("user.identity.remove"),
        )
    raise Denied(
        "no account is linked to this sign-in",
        code="sign_in.unknown",
        hint="ask an operator of this host to add you",
        action=Action.of("user.add"),
    )


def _sync_groups(change: AuditedTransaction, person: Person, profile: SignInProfile) -> None:
    for name in sorted(profile.groups - person.rights.groups):
        if name not in _group_names(change):
            add_group(change, name)
        change_member(change, name, person.name)
    for name in sorted((profile.managed_groups - profile.groups) & person.rights.groups):
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
    """Return the principal of an access token by its claims.

    Raises:
        Denied: `auth.refused`, no person here has that identity, or they may not act.
    """
    person = find_linked_person(tx, tenant, identity, name)
    if person is None or person.disabled:
        raise Denied(
            "no active account is linked to this token",
            code="auth.refused",
            hint="sign in once, or ask an operator of this host to link your identity",
            action=Action.of("user.identity.add"),
        )
    return token_principal(person, roles, scopes)


def token_principal(person: Person, roles: AbstractSet[str], scopes: AbstractSet[str]) -> Principal:
    """Build the principal of a token with these roles and scopes, limited to those of the person."""
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

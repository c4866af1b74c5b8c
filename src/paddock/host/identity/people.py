"""Manages the people of a tenant while the host runs: their roles, sign-in links, sessions and consents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from paddock.approvals.removal import names_of_person, remove_person
from paddock.approvals.store import ApprovalTransaction
from paddock.capabilities.artifacts.readers import forget_recipients
from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.identity.caller import require_interactive_person
from paddock.host.identity.principal_transactions import PrincipalTransactions, Removal
from paddock.principals.consents import ConsentRecord, find_by_name, give_consent, list_consents, revoke_consent
from paddock.principals.groups import PersonGroup, list_groups
from paddock.principals.identities import ExternalIdentity, link_identity, list_identities, unlink_identity
from paddock.principals.login_links import LoginLink, make_link, void_links_for
from paddock.principals.people import (
    Person,
    add_person,
    change_rights,
    detect_second_approver,
    list_people,
    rename_person,
    require_person,
    set_disabled,
)
from paddock.principals.sessions import ConsoleSession, end_all_sessions, end_session, list_sessions
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

_LOCAL_PREFIX = "local:"  # of the operators of this host


class PersonChange(Struct, frozen=True):
    """A person after a change, and whether the change gave the tenant its second approver."""

    person: Person
    second: bool


class PeopleService:
    """Manages people; each method works on the tenant of the acting principal."""

    def __init__(self, transactions: PrincipalTransactions) -> None:
        self._transactions = transactions

    async def list_all(self, tenant: Tenant) -> tuple[list[Person], list[PersonGroup]]:
        """List all people and groups."""
        return await self._transactions.read(lambda tx: (list_people(tx, tenant), list_groups(tx, tenant)))

    async def find(self, tenant: Tenant, name: str) -> Person:
        """Return a person; raises NotFound."""
        return await self._transactions.read(lambda tx: require_person(tx, tenant, name))

    async def add(
        self, by: Principal, name: str, *, display_name: str, roles: Sequence[str], scopes: Sequence[str] = ()
    ) -> PersonChange:
        """Add a person; see `add_person`."""
        return await self._write_person(
            by, lambda change: add_person(change, name, display_name=display_name, roles=roles, scopes=scopes)
        )

    async def change_rights(
        self,
        by: Principal,
        name: str,
        field: Literal["roles", "scopes"],
        *,
        give: Sequence[str] = (),
        take: Sequence[str] = (),
    ) -> PersonChange:
        """Add and remove roles or scopes of a person. Their keys lose removed ones at once.

        Raises:
            NotFound: no such person.
            OperatorError: the name of a role or scope is invalid.
            Conflict: operators cannot remove their own operator role.
        """
        if field == "roles" and OPERATOR in take:
            _forbid_on_self(by, name, "take the role operator from")
        return await self._write_person(by, lambda change: change_rights(change, name, field, add=give, remove=take))

    async def rename(self, by: Principal, name: str, display_name: str) -> PersonChange:
        """Change the display name of a person; see `rename_person`."""
        return await self._write_person(by, lambda change: rename_person(change, name, display_name))

    async def set_enabled(self, by: Principal, name: str, *, on: bool) -> PersonChange:
        """Enable or disable a person.

        Raises:
            NotFound: no such person.
            Conflict: operators cannot disable themselves.
        """
        if not on:
            _forbid_on_self(by, name, "disable")
        return await self._write_person(by, lambda change: set_disabled(change, name, not on))

    async def remove(self, by: Principal, name: str) -> Removal[Person]:
        """Remove a person with everything they own; see `remove_person`.

        Raises:
            NotFound: no such person.
            Conflict: operators cannot remove themselves.
        """
        require_interactive_person(by)
        _forbid_on_self(by, name, "remove")
        return await self._transactions.write_removal(
            by,
            lambda change, approvals: _remove(change, approvals, name),
            lambda tx: names_of_person(tx, by.tenant, name),
        )

    async def list_identities(self, tenant: Tenant, name: str) -> tuple[Person, list[ExternalIdentity]]:
        """Return a person and their identities at all providers; raises NotFound."""
        return await self._transactions.read(lambda tx: _with_identities(tx, require_person(tx, tenant, name)))

    async def link_identity(
        self, by: Principal, name: str, identity: ExternalIdentity
    ) -> tuple[Person, list[ExternalIdentity]]:
        """Link a person to an identity at a provider; see `link_identity`."""
        return await self._transactions.write_as_person(
            by, lambda change: _with_identities(change.tx, link_identity(change, name, identity))
        )

    async def unlink_identity(self, by: Principal, name: str, issuer: str) -> tuple[Person, list[ExternalIdentity]]:
        """Unlink a person from a provider; see `unlink_identity`."""
        return await self._transactions.write_as_person(
            by, lambda change: _with_identities(change.tx, unlink_identity(change, name, issuer))
        )

    async def create_sign_in_link(self, by: Principal, name: str) -> tuple[LoginLink, Secret]:
        """Create a short-lived one-time sign-in link for a person; see `make_link`."""
        return await self._transactions.write_as_person(
            by,
            lambda change: make_link(
                change, require_person(change.tx, change.tenant, name).id, self._transactions.random
            ),
        )

    async def create_login_link(self, by: Principal, principal_name: str) -> tuple[LoginLink, Secret]:
        """Create a sign-in link for a person or an operator of this host, as in `local:root`; see `make_link`.

        Only for requests from the machine of the host.
        """
        return await self._transactions.write_as_person(
            by, lambda change: make_link(change, principal_name, self._transactions.random)
        )

    async def list_sessions(self, tenant: Tenant, name: str | None) -> list[ConsoleSession]:
        """List the sessions of a tenant, or of one person or local operator of it; raises NotFound."""

        def query(tx: Transaction) -> list[ConsoleSession]:
            subject = name
            if name is not None and not name.startswith(_LOCAL_PREFIX):
                subject = require_person(tx, tenant, name).id
            return list_sessions(tx, tenant, self._transactions.now(), subject)

        return await self._transactions.read(query)

    async def end_session(self, by: Principal, session_id: str) -> ConsoleSession:
        """End one session of the tenant; raises NotFound."""
        return await self._transactions.write_as_person(by, lambda change: end_session(change, session_id))

    async def sign_out(self, by: Principal, name: str, *, allow_local: bool = False) -> list[ConsoleSession]:
        """End all sessions of a person and void their sign-in links; raises NotFound.

        With `allow_local` the name may also be that of an operator of this host, as in `local:root`.
        """

        def end_all(change: AuditedTransaction) -> list[ConsoleSession]:
            is_local = allow_local and name.startswith(_LOCAL_PREFIX)
            subject = name if is_local else require_person(change.tx, change.tenant, name).id
            void_links_for(change, subject)
            return end_all_sessions(change, subject)

        return await self._transactions.write_as_person(by, end_all)

    async def _write_person(self, by: Principal, write: Callable[[AuditedTransaction], Person]) -> PersonChange:
        return PersonChange(
            *await self._transactions.write_as_person(by, lambda change: detect_second_approver(change, write))
        )


def _with_identities(tx: Transaction, person: Person) -> tuple[Person, list[ExternalIdentity]]:
    return person, list_identities(tx, person)


def _forbid_on_self(by: Principal, name: str, action: str) -> None:
    """Keep operators from removing, in the console, what they need to undo it. The machine's shell allows it."""
    if by.id == f"user:{name.removeprefix('user:')}":
        raise Conflict(
            f"you cannot {action} yourself", code="person.yourself", hint="ask another operator to do it for you"
        )


class ConsentService:
    """The consents of people. A key cannot revoke its owner's."""

    def __init__(self, transactions: PrincipalTransactions) -> None:
        self._transactions = transactions

    async def list_for(self, principal: Principal) -> list[ConsentRecord]:
        """List the consents of a person that are in force."""
        return await self._transactions.read(lambda tx: list_consents(tx, principal.tenant, principal.id))

    async def list_all(self, tenant: Tenant, person: str | None, *, revoked: bool = False) -> list[ConsentRecord]:
        """List the consents of a tenant, or of one principal, with revoked ones if asked for."""
        return await self._transactions.read(lambda tx: list_consents(tx, tenant, person, revoked=revoked))

    async def give(self, by: Principal, person: str, plugin: str, callable_name: str) -> ConsentRecord:
        """Record the consent of a person; see `give_consent`."""
        return await self._transactions.write_as_person(
            by, lambda change: give_consent(change, person, plugin, callable_name)
        )

    async def revoke_by_name(self, by: Principal, person: str, name: str) -> ConsentRecord:
        """Revoke the consent of a person to a callable, by its full name or, if it is the only one, by its plugin.

        Raises:
            NotFound: there is none in force.
        """

        def revoke(change: AuditedTransaction) -> ConsentRecord:
            consents = list_consents(change.tx, change.tenant, person)
            consent = find_by_name(consents, name)
            plugin, _, callable_name = name.rpartition(".")
            target = (consent.plugin, consent.callable) if consent else (plugin, callable_name)
            return revoke_consent(change, person, *target)

        return await self._transactions.write_as_person(by, revoke)

    async def revoke(self, principal: Principal, plugin: str, callable_name: str) -> ConsentRecord:
        """Revoke a consent; the next call needs a new one.

        Raises:
            NotFound: there is none in force.
        """
        return await self._transactions.write_as_person(
            principal, lambda change: revoke_consent(change, principal.id, plugin, callable_name)
        )


def _remove(change: AuditedTransaction, approvals: ApprovalTransaction, name: str) -> Person:
    person = remove_person(change, approvals, name)
    forget_recipients(change.tx, change.tenant, {person.id, f"token:{person.name}"})
    return person

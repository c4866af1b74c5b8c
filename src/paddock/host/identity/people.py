"""Manages the people of a tenant while the host runs: their roles, sign-in links, sessions and consents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.identity.principal_transactions import PrincipalTransactions
from paddock.principals.consents import ConsentRecord, list_consents, revoke_consent
from paddock.principals.groups import PersonGroup, list_groups
from paddock.principals.login_links import LoginLink, make_link, void_links_for
from paddock.principals.people import (
    Person,
    add_person,
    change_rights,
    detect_second_approver,
    list_people,
    require_person,
    set_disabled,
)
from paddock.principals.sessions import ConsoleSession, end_all_sessions
from paddock.store.audited_transaction import AuditedTransaction


@dataclass(frozen=True, slots=True)
class PersonChange:
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

    async def add(self, by: Principal, name: str, *, display_name: str, roles: Sequence[str]) -> PersonChange:
        """Add a person; see `add_person`."""
        return await self._write_person(
            by, lambda change: add_person(change, name, display_name=display_name, roles=roles)
        )

    async def change_roles(
        self, by: Principal, name: str, *, give: Sequence[str] = (), take: Sequence[str] = ()
    ) -> PersonChange:
        """Add and remove roles of a person. Their keys lose removed roles at once.

        Raises:
            NotFound: no such person.
            OperatorError: a role name is invalid.
            Conflict: operators cannot remove their own operator role.
        """
        if OPERATOR in take:
            _forbid_on_self(by, name, "take the role operator from")
        return await self._write_person(by, lambda change: change_rights(change, name, "roles", add=give, remove=take))

    async def set_enabled(self, by: Principal, name: str, *, on: bool) -> PersonChange:
        """Enable or disable a person.

        Raises:
            NotFound: no such person.
            Conflict: operators cannot disable themselves.
        """
        if not on:
            _forbid_on_self(by, name, "disable")
        return await self._write_person(by, lambda change: set_disabled(change, name, not on))

    async def create_sign_in_link(self, by: Principal, name: str) -> tuple[LoginLink, Secret]:
        """Create a short-lived one-time sign-in link for a person; see `make_link`."""
        return await self._transactions.write_as_person(
            by,
            lambda change: make_link(
                change, require_person(change.tx, change.tenant, name).id, self._transactions.random
            ),
        )

    async def sign_out(self, by: Principal, name: str) -> list[ConsoleSession]:
        """End all sessions of a person and void their sign-in links; raises NotFound."""

        def end_all(change: AuditedTransaction) -> list[ConsoleSession]:
            person_id = require_person(change.tx, change.tenant, name).id
            void_links_for(change, person_id)
            return end_all_sessions(change, person_id)

        return await self._transactions.write_as_person(by, end_all)

    async def _write_person(self, by: Principal, write: Callable[[AuditedTransaction], Person]) -> PersonChange:
        return PersonChange(
            *await self._transactions.write_as_person(by, lambda change: detect_second_approver(change, write))
        )


def _forbid_on_self(by: Principal, name: str, action: str) -> None:
    """Keep operators from removing, in the console, what they need to undo it. The machine's shell allows it."""
    if by.id == f"user:{name.removeprefix('user:')}":
        raise Conflict(
            f"you cannot {action} yourself", code="person.yourself", hint="ask another operator to do it for you"
        )


class ConsentService:
    """A person's own consents. A key cannot revoke its owner's."""

    def __init__(self, transactions: PrincipalTransactions) -> None:
        self._transactions = transactions

    async def list_for(self, principal: Principal) -> list[ConsentRecord]:
        """List the consents of a person that are in force."""
        return await self._transactions.read(lambda tx: list_consents(tx, principal.tenant, principal.id))

    async def revoke(self, principal: Principal, plugin: str, callable_name: str) -> ConsentRecord:
        """Revoke a consent; the next call needs a new one.

        Raises:
            NotFound: there is none in force.
        """
        return await self._transactions.write_as_person(
            principal, lambda change: revoke_consent(change, principal.id, plugin, callable_name)
        )

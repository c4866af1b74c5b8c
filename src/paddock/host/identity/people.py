"""The people of a tenant, looked after while the host runs: who there is, what they may do, and how they get in."""

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
    """A person after a change, and whether it left their tenant with several who may approve, where it had one."""

    person: Person
    second: bool


class PeopleService:
    """Looks after people; each method is about the tenant of whoever asks."""

    def __init__(self, changes: PrincipalTransactions) -> None:
        self._transactions = changes

    async def list_all(self, tenant: Tenant) -> tuple[list[Person], list[PersonGroup]]:
        """Everybody, and the groups that they are in."""
        return await self._transactions.read(lambda tx: (list_people(tx, tenant), list_groups(tx, tenant)))

    async def find(self, tenant: Tenant, name: str) -> Person:
        """Somebody; raises NotFound."""
        return await self._transactions.read(lambda tx: require_person(tx, tenant, name))

    async def add(self, by: Principal, name: str, *, display_name: str, roles: Sequence[str]) -> PersonChange:
        """Add somebody; see `add_person`."""
        return await self._write_person(by, lambda made: add_person(made, name, display_name=display_name, roles=roles))

    async def change_roles(
        self, by: Principal, name: str, *, give: Sequence[str] = (), take: Sequence[str] = ()
    ) -> PersonChange:
        """Give somebody roles and take others away. Their keys lose what they lose, at once.

        Raises:
            NotFound: nobody is called that.
            OperatorError: no role can be.
            Conflict: somebody would stop being an operator by their own hand.
        """
        if OPERATOR in take:
            _forbid_on_self(by, name, "take the role operator from")
        return await self._write_person(by, lambda made: change_rights(made, name, "roles", add=give, remove=take))

    async def set_enabled(self, by: Principal, name: str, *, on: bool) -> PersonChange:
        """Let somebody act no more, or again.

        Raises:
            NotFound: nobody is called that.
            Conflict: somebody would lock themselves out.
        """
        if not on:
            _forbid_on_self(by, name, "disable")
        return await self._write_person(by, lambda made: set_disabled(made, name, not on))

    async def create_sign_in_link(self, by: Principal, name: str) -> tuple[LoginLink, Secret]:
        """A link that signs somebody in, once and soon; see `make_link`."""
        return await self._transactions.write_as_person(
            by, lambda made: make_link(made, require_person(made.tx, made.tenant, name).id, self._transactions.random)
        )

    async def sign_out(self, by: Principal, name: str) -> list[ConsoleSession]:
        """Sign somebody out everywhere, links to sign in too; raises NotFound."""

        def unit(made: AuditedTransaction) -> list[ConsoleSession]:
            subject = require_person(made.tx, made.tenant, name).id
            void_links_for(made, subject)
            return end_all_sessions(made, subject)

        return await self._transactions.write_as_person(by, unit)

    async def _write_person(self, by: Principal, unit: Callable[[AuditedTransaction], Person]) -> PersonChange:
        return PersonChange(
            *await self._transactions.write_as_person(by, lambda made: detect_second_approver(made, unit))
        )


def _forbid_on_self(by: Principal, name: str, what: str) -> None:
    """From a page nobody takes away what they need to undo it. At the machine itself it can be done and undone."""
    if by.id == f"user:{name.removeprefix('user:')}":
        raise Conflict(
            f"you cannot {what} yourself", code="person.yourself", hint="ask another operator to do it for you"
        )


class ConsentService:
    """Everybody's own, and nobody else's. A key takes nothing back that its owner said."""

    def __init__(self, changes: PrincipalTransactions) -> None:
        self._transactions = changes

    async def list_for(self, who: Principal) -> list[ConsentRecord]:
        """What stands of somebody's consents."""
        return await self._transactions.read(lambda tx: list_consents(tx, who.tenant, who.id))

    async def revoke(self, who: Principal, plugin: str, callable_name: str) -> ConsentRecord:
        """Take one back; the next call needs a new one.

        Raises:
            NotFound: there is none that stands.
        """
        return await self._transactions.write_as_person(
            who, lambda made: revoke_consent(made, who.id, plugin, callable_name)
        )

"""The people of a tenant, looked after while the host runs: who there is, what they may do, and how they get in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.changes import Changes
from paddock.principals.approvers import tells_of_second
from paddock.principals.change import Change
from paddock.principals.groups import Group, groups
from paddock.principals.login_links import LoginLink, make_link, void_links_of
from paddock.principals.people import Person, add_person, change_rights, people, require_person, set_disabled
from paddock.principals.sessions import Session, end_sessions_of


@dataclass(frozen=True, slots=True)
class Changed:
    """A person after a change, and whether it left their tenant with several who may approve, where it had one."""

    person: Person
    second: bool


class People:
    """Looks after people; each method is about the tenant of whoever asks."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def all(self, tenant: Tenant) -> tuple[list[Person], list[Group]]:
        """Everybody, and the groups that they are in."""
        return await self._changes.read(lambda tx: (people(tx, tenant), groups(tx, tenant)))

    async def one(self, tenant: Tenant, name: str) -> Person:
        """Somebody; raises NotFound."""
        return await self._changes.read(lambda tx: require_person(tx, tenant, name))

    async def add(self, by: Principal, name: str, *, display_name: str, roles: Sequence[str]) -> Changed:
        """Add somebody; see `add_person`."""
        return await self._changed(by, lambda made: add_person(made, name, display_name=display_name, roles=roles))

    async def change_roles(
        self, by: Principal, name: str, *, give: Sequence[str] = (), take: Sequence[str] = ()
    ) -> Changed:
        """Give somebody roles and take others away. Their keys lose what they lose, at once.

        Raises:
            NotFound: nobody is called that.
            OperatorError: no role can be.
            Conflict: somebody would stop being an operator by their own hand.
        """
        if OPERATOR in take:
            _require_somebody_else(by, name, "take the role operator from")
        return await self._changed(by, lambda made: change_rights(made, name, "roles", add=give, remove=take))

    async def switch(self, by: Principal, name: str, *, on: bool) -> Changed:
        """Let somebody act no more, or again.

        Raises:
            NotFound: nobody is called that.
            Conflict: somebody would lock themselves out.
        """
        if not on:
            _require_somebody_else(by, name, "disable")
        return await self._changed(by, lambda made: set_disabled(made, name, not on))

    async def link(self, by: Principal, name: str) -> tuple[LoginLink, Secret]:
        """A link that signs somebody in, once and soon; see `make_link`."""
        return await self._changes.make(
            by, lambda made: make_link(made, require_person(made.tx, made.tenant, name).id, self._changes.random)
        )

    async def sign_out(self, by: Principal, name: str) -> list[Session]:
        """Sign somebody out everywhere, links to sign in too; raises NotFound."""

        def unit(made: Change) -> list[Session]:
            subject = require_person(made.tx, made.tenant, name).id
            void_links_of(made, subject)
            return end_sessions_of(made, subject)

        return await self._changes.make(by, unit)

    async def _changed(self, by: Principal, unit: Callable[[Change], Person]) -> Changed:
        return Changed(*await self._changes.make(by, lambda made: tells_of_second(made, unit)))


def _require_somebody_else(by: Principal, name: str, what: str) -> None:
    """From a page nobody takes away what they need to undo it. At the machine itself it can be done and undone."""
    if by.id == f"user:{name.removeprefix('user:')}":
        raise Conflict(
            f"you cannot {what} yourself", code="person.yourself", hint="ask another operator to do it for you"
        )

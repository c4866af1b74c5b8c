"""Manages the groups of a tenant while the host runs."""

from __future__ import annotations

from paddock.approvals.removal import names_of_group, remove_group
from paddock.core.call import Principal
from paddock.core.ids import Tenant
from paddock.host.identity.caller import require_interactive_person
from paddock.host.identity.principal_transactions import PrincipalTransactions, Removal
from paddock.principals.groups import PersonGroup, add_group, change_member, list_groups, require_group


class GroupService:
    """Manages groups; each change is made in the tenant of the acting principal, who must be a person."""

    def __init__(self, transactions: PrincipalTransactions) -> None:
        self._transactions = transactions

    async def list_all(self, tenant: Tenant) -> list[PersonGroup]:
        """List all groups, by name."""
        return await self._transactions.read(lambda tx: list_groups(tx, tenant))

    async def find(self, tenant: Tenant, name: str) -> PersonGroup:
        """Return a group; raises NotFound."""
        return await self._transactions.read(lambda tx: require_group(tx, tenant, name))

    async def add(self, by: Principal, name: str, title: str) -> PersonGroup:
        """Create a group; see `add_group`."""
        return await self._transactions.write_as_person(by, lambda change: add_group(change, name, title))

    async def add_member(self, by: Principal, name: str, person: str) -> PersonGroup:
        """Add a person to a group; see `change_member`."""
        return await self._transactions.write_as_person(by, lambda change: change_member(change, name, person))

    async def remove_member(self, by: Principal, name: str, person: str) -> PersonGroup:
        """Remove a person from a group; see `change_member`."""
        return await self._transactions.write_as_person(
            by, lambda change: change_member(change, name, person, remove=True)
        )

    async def remove(self, by: Principal, name: str) -> Removal[PersonGroup]:
        """Remove a group, and void the requests that only it could answer; see `remove_group`."""
        require_interactive_person(by)
        return await self._transactions.write_removal(
            by,
            lambda change, approvals: remove_group(change, approvals, name),
            lambda tx: names_of_group(tx, by.tenant, name),
        )

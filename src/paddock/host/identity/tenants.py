"""Adds and removes tenants while the host runs."""

from __future__ import annotations

from paddock.core.call import Principal
from paddock.host.identity.principal_transactions import PrincipalTransactions
from paddock.principals.tenants import TenantRecord, add_tenant, list_tenants, remove_tenant, require_tenant


class TenantService:
    """The tenants of this host. The changes are recorded in the tenant of the acting principal."""

    def __init__(self, transactions: PrincipalTransactions) -> None:
        self._transactions = transactions

    async def list_all(self) -> list[TenantRecord]:
        """List all tenants, the default one first."""
        return await self._transactions.read(list_tenants)

    async def find(self, name: str) -> TenantRecord:
        """Return a tenant; raises NotFound."""
        return await self._transactions.read(lambda tx: require_tenant(tx, name))

    async def add(self, by: Principal, name: str, title: str) -> TenantRecord:
        """Create a tenant; see `add_tenant`."""
        return await self._transactions.write_as_person(by, lambda change: add_tenant(change, name, title))

    async def remove(self, by: Principal, name: str) -> TenantRecord:
        """Remove a tenant that owns nothing any more; see `remove_tenant`."""
        return await self._transactions.write_as_person(by, lambda change: remove_tenant(change, name))

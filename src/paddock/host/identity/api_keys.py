"""Creates and revokes API keys while the host runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from paddock.approvals.removal import retire_key
from paddock.approvals.store import ApprovalTransaction
from paddock.core.call import OPERATOR, Principal
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.identity.principal_transactions import PrincipalTransactions, Removal
from paddock.principals.api_keys import ApiKey, create_key, list_keys, require_key, unknown_key_error
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction


class ApiKeyService:
    """The API keys of a tenant. Operators create them; owners see and revoke their own."""

    def __init__(self, transactions: PrincipalTransactions) -> None:
        self._transactions = transactions

    async def list_all(self, tenant: Tenant) -> list[ApiKey]:
        """List every key, oldest first."""
        return await self._transactions.read(lambda tx: list_keys(tx, tenant))

    async def list_owned_by(self, principal: Principal) -> list[ApiKey]:
        """List the keys of a person. A key principal owns none, and sees no others."""
        return [key for key in await self.list_all(principal.tenant) if principal.id == f"user:{key.owner}"]

    async def create(
        self,
        by: Principal,
        owner: str,
        *,
        label: str,
        roles: Sequence[str] | None,
        scopes: Sequence[str],
        expires_at: datetime | None,
    ) -> tuple[ApiKey, Secret]:
        """Create a key and return it with its token; see `create_key`."""
        return await self._transactions.write_as_person(
            by,
            lambda change: create_key(
                change, owner, self._transactions.random, label=label, roles=roles, scopes=scopes, expires_at=expires_at
            ),
        )

    async def find(self, principal: Principal, key_id: str) -> ApiKey:
        """Return a key that the principal may see: operators see all of their tenant, people their own.

        Raises:
            NotFound: there is no such key, or the principal may not see it.
        """
        return await self._transactions.read(lambda tx: _require_visible_key(tx, principal, key_id))

    async def revoke(self, by: Principal, key_id: str) -> Removal[ApiKey]:
        """Revoke a key at once, and end the approval requests made with it.

        Raises:
            NotFound: there is no such key, or the principal may not revoke it.
        """

        def revoke_key(change: AuditedTransaction, approvals: ApprovalTransaction) -> ApiKey:
            return retire_key(change, approvals, _require_visible_key(change.tx, by, key_id).id)

        return await self._transactions.write_removal(by, revoke_key)


def _require_visible_key(tx: Transaction, principal: Principal, key_id: str) -> ApiKey:
    key = require_key(tx, principal.tenant, key_id)
    if OPERATOR not in principal.roles and principal.id != f"user:{key.owner}":
        raise unknown_key_error(principal.tenant, key_id)
    return key

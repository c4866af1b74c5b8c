"""API keys, made and revoked while the host runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from paddock.approvals.removal import retire_key
from paddock.approvals.store import ApprovalTransaction
from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import NotFound
from paddock.core.ids import Tenant
from paddock.core.secret import Secret
from paddock.host.identity.principal_transactions import PrincipalTransactions
from paddock.principals.api_keys import ApiKey, create_key, list_keys, require_key
from paddock.store.audited_transaction import AuditedTransaction


class ApiKeyService:
    """The keys of a tenant. Whoever operates it makes them; their owners see and revoke their own."""

    def __init__(self, changes: PrincipalTransactions) -> None:
        self._transactions = changes

    async def list_all(self, tenant: Tenant) -> list[ApiKey]:
        """Every key, oldest first."""
        return await self._transactions.read(lambda tx: list_keys(tx, tenant))

    async def list_owned_by(self, who: Principal) -> list[ApiKey]:
        """The keys of one person. A key has none of its own, and learns of no other."""
        return [one for one in await self.list_all(who.tenant) if who.id == f"user:{one.owner}"]

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
        """A new key and its token; see `create_key`."""
        return await self._transactions.write_as_person(
            by,
            lambda made: create_key(
                made, owner, self._transactions.random, label=label, roles=roles, scopes=scopes, expires_at=expires_at
            ),
        )

    async def revoke(self, by: Principal, wanted: str) -> ApiKey:
        """Have a key work no more, at once, and end what was asked for with it.

        Raises:
            NotFound: there is none of that id, or it is not theirs to revoke.
        """

        def unit(made: AuditedTransaction, around: ApprovalTransaction) -> ApiKey:
            key = require_key(made.tx, made.tenant, wanted)
            if OPERATOR not in by.roles and by.id != f"user:{key.owner}":
                raise NotFound(f"no key has {key.id!r}", code="api_key.not_found", hint="see 'paddock apikey list'")
            return retire_key(made, around, key.id)

        return await self._transactions.write_removal(by, unit)

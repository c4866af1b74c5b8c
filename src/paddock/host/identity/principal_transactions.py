"""Changes of who may act, made while the host runs: kept with their entry in the ledger, and in effect at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from paddock.approvals.store import ApprovalTransaction
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.identity.caller import require_interactive_person
from paddock.host.identity.credentials import CredentialVerifier
from paddock.ledger.write.append import TransactionLedger
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Database, Transaction

T = TypeVar("T")


class PrincipalTransactions:
    """What the parts about people, keys and consents share: each unit of work is of one tenant, by somebody of it.

    Args:
        database: Where people and keys are.
        credentials: Forgets what it knew once something changed.
        clock, random: For the rows, and for tokens.
    """

    def __init__(self, database: Database, credentials: CredentialVerifier, clock: Clock, random: Random) -> None:
        self.random = random
        self._database = database
        self._credentials = credentials
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    async def read(self, unit: Callable[[Transaction], T]) -> T:
        """Look something up."""
        return await self._database.read(unit)

    async def write_as_person(self, by: Principal, unit: Callable[[AuditedTransaction], T]) -> T:
        """Change something in somebody's tenant. No credential counts for more than is left when this returns.

        Raises:
            Denied: a program asks for it. With a key it could make itself a person who signs in, and says yes.
        """
        require_interactive_person(by)
        return await self._write_and_invalidate(lambda tx: unit(self._begin_change(tx, by.tenant, by.id)))

    async def write_removal(self, by: Principal, unit: Callable[[AuditedTransaction, ApprovalTransaction], T]) -> T:
        """Take something away, with all that waits for a yes because of it. A program may do that too."""
        return await self._write_and_invalidate(
            lambda tx: unit(self._begin_change(tx, by.tenant, by.id), self._begin_approval_unit(tx, by))
        )

    async def _write_and_invalidate(self, unit: Callable[[Transaction], T]) -> T:
        changed = await self._database.write(unit)
        self._credentials.invalidate()
        return changed

    def _begin_change(self, tx: Transaction, tenant: Tenant, by: PrincipalId) -> AuditedTransaction:
        told = TransactionLedger(tx, self._clock, self.random, tenant, by=by)
        return AuditedTransaction(tx, tenant, by, self._clock.now().isoformat(), told)

    def _begin_approval_unit(self, tx: Transaction, by: Principal) -> ApprovalTransaction:
        def told(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
            return TransactionLedger(tx, self._clock, self.random, tenant, call, by.id)

        return ApprovalTransaction(tx, by.tenant, self._clock.now().isoformat(), self._clock, self.random, told)

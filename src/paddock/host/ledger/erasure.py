"""Erases people from the ledger of a running host, and from the rows beside it."""

from __future__ import annotations

from paddock.approvals.erasure import ErasureResult, erase_person
from paddock.approvals.store import ApprovalTransaction
from paddock.capabilities.artifacts.readers import forget_recipients
from paddock.core.clock import Clock, Random
from paddock.core.ids import PrincipalId, Tenant
from paddock.gate.admission.quotas import erase_usage
from paddock.gate.calls.call_details import CallDetailsStore, erase_call_details
from paddock.gate.idempotency.retention import erase_people
from paddock.host.identity.principal_transactions import Removal
from paddock.ledger.erase import principal_aliases
from paddock.ledger.write.append import TransactionLedger
from paddock.ledger.write.writer import LedgerWriter
from paddock.plugins.store.thread import StoreThread
from paddock.store.database import Database, Transaction


class ErasureService:
    """Erases what a tenant's records say about a person.

    Args:
        database: Holds the ledger.
        ledger: Flushed first: entries that are still queued may name the person.
        details: Flushed too.
        store: Truncates the database's log.
        clock, random: For the entry that records the erasure.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerWriter,
        details: CallDetailsStore,
        store: StoreThread,
        clock: Clock,
        random: Random,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._details = details
        self._store = store
        self._clock = clock
        self._random = random

    async def erase(self, tenant: Tenant, principal: str, *, by: PrincipalId, reason: str) -> Removal[ErasureResult]:
        """Erase a person; see `erase_person`.

        Raises:
            NotFound: nothing mentions them.
            PaddockError: the queued entries cannot be written, so some would name the person afterwards.
        """
        await self._ledger.flush()
        await self._details.flush()
        erased = await self._database.write(lambda tx: self._erase(tx, tenant, principal, by, reason))
        return Removal(erased, await self._store.run(lambda store: store.database.truncate_log()))

    def _erase(self, tx: Transaction, tenant: Tenant, principal: str, by: PrincipalId, reason: str) -> ErasureResult:
        def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
            return TransactionLedger(tx, self._clock, self._random, tenant, call, by)

        now = self._clock.now().isoformat()
        names = principal_aliases(tx, tenant, principal)
        other_rows = erase_usage(tx, tenant, names) + erase_people(tx, tenant, names, now)
        other_rows += forget_recipients(tx, tenant, names) + erase_call_details(tx, tenant, names)
        unit = ApprovalTransaction(tx, tenant, now, self._clock, self._random, publish_in)
        return erase_person(unit, principal, by=by, explanation=reason, other_rows=other_rows)

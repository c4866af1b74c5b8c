"""Changes of who may act, made while the host runs: kept with their entry in the ledger, and in effect at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.credentials import Credentials
from paddock.host.people_only import require_person
from paddock.ledger.append import LedgerTable
from paddock.policy.approvals.unit import Unit
from paddock.principals.change import Change
from paddock.store.database import Database, Transaction

T = TypeVar("T")


class Changes:
    """What the parts about people, keys and consents share: each unit of work is of one tenant, by somebody of it.

    Args:
        database: Where people and keys are.
        credentials: Forgets what it knew once something changed.
        clock, random: For the rows, and for tokens.
    """

    def __init__(self, database: Database, credentials: Credentials, clock: Clock, random: Random) -> None:
        self.random = random
        self._database = database
        self._credentials = credentials
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    async def read(self, unit: Callable[[Transaction], T]) -> T:
        """Look something up."""
        return await self._database.read(unit)

    async def make(self, by: Principal, unit: Callable[[Change], T]) -> T:
        """Change something in somebody's tenant. No credential counts for more than is left when this returns.

        Raises:
            Denied: a program asks for it. With a key it could make itself a person who signs in, and says yes.
        """
        require_person(by)
        return await self._written(lambda tx: unit(self._change(tx, by.tenant, by.id)))

    async def remove(self, by: Principal, unit: Callable[[Change, Unit], T]) -> T:
        """Take something away, with all that waits for a yes because of it. A program may do that too."""
        return await self._written(lambda tx: unit(self._change(tx, by.tenant, by.id), self._unit(tx, by)))

    async def _written(self, unit: Callable[[Transaction], T]) -> T:
        changed = await self._database.write(unit)
        self._credentials.look_again()
        return changed

    def _change(self, tx: Transaction, tenant: Tenant, by: PrincipalId) -> Change:
        told = LedgerTable(tx, self._clock, self.random, tenant, by=by)
        return Change(tx, tenant, by, self._clock.now().isoformat(), told)

    def _unit(self, tx: Transaction, by: Principal) -> Unit:
        def told(tx: Transaction, tenant: Tenant, call: str | None) -> LedgerTable:
            return LedgerTable(tx, self._clock, self.random, tenant, call, by.id)

        return Unit(tx, by.tenant, self._clock.now().isoformat(), self._clock, self.random, told)

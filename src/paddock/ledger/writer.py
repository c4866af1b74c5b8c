"""Entries on their way into the ledger: taken without waiting, written in batches a moment later.

For facts that come from running plugins, thousands a second and outside any unit of work. What belongs to a unit of
work is recorded in it, with `LedgerTable`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, PaddockError
from paddock.core.event import Event
from paddock.core.ids import Tenant, new_ids
from paddock.ledger.append import append
from paddock.ledger.entry import Draft, Made
from paddock.store.database import Database, Transaction

MOST_WAITING = 50_000
CROWDED = 10_000  # from here on, whoever has made most of them is asked to wait
TOO_CROWDED = 2 * CROWDED  # and from here on everybody
LARGEST_BATCH = 500
RETRY_AFTER = 1.0
GATHER = 0.05  # seconds for which a batch waits for more: a transaction of its own would cost more than a call
_PATIENCE = 5  # lost races with other nodes before it counts as failing


class LedgerWriter:
    """Takes events at once and writes them soon. While they cannot be written, `failing` says why.

    What waits is bounded. Callers who make events wait for `room` when the disk does not keep up; when nothing can be
    written at all, the gate refuses calls because of `failing`. What still comes after that, from plugins that crash
    for instance, is lost and counted once there is no space left for it.
    """

    def __init__(self, database: Database, clock: Clock, random: Random) -> None:
        self._database = database
        self._clock = clock
        self._random = random
        self._waiting: list[Draft] = []
        self._waiting_of: Counter[str] = Counter()  # by tenant
        self._batch: list[tuple[str, Draft]] = []  # what is being written, under the names that it will have
        self._doubtful = False  # whether the batch may be on disk although it failed
        self._mending = False  # whether a name in the batch may be one that no database keeps
        self._races = 0
        self._hurry = asyncio.Event()
        self._news = asyncio.Event()
        self._written = asyncio.Event()
        self.failing: PaddockError | None = None
        self.unsigned: PaddockError | None = None
        """Why no checkpoint can be made; calls go on meanwhile."""
        self.broken: dict[str, PaddockError] = {}
        """By tenant, what is wrong with their chain; nobody is called for them."""
        self.lost = 0
        self.rows = 0
        """Entries written so far."""

    @property
    def waiting(self) -> int:
        """How many entries were taken and are not on disk yet."""
        return len(self._waiting)

    def publisher(self, tenant: Tenant) -> TenantEvents:
        """The seam for everything that happens to one tenant's plugins."""
        return TenantEvents(self, tenant)

    def take(
        self,
        event: Made,
        tenant: str,
        *,
        call: str | None = None,
        request: str | None = None,
        principal: str | None = None,
        soon: bool = False,
    ) -> None:
        """Accept one event, with what is known of the call that it belongs to; `soon`: without waiting for more.

        Or what makes it: this is done in the store's thread, where it takes no call's time.
        """
        if len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            return
        self._waiting_of[tenant] += 1
        self._waiting.append(Draft(event, tenant, self._clock.now(), call, request, principal))
        if not self._news.is_set():
            self._news.set()
        if soon:
            self._hurry.set()

    def crowded(self, tenant: str) -> bool:
        """Whether the disk does not keep up, and this tenant has its share in that: the others need not feel it. Or
        whether its chain is broken, so that nothing is to be added to it by calls."""
        if tenant in self.broken:
            return True
        waiting = len(self._waiting)
        if waiting < CROWDED:
            return False
        own = self._waiting_of[tenant]
        return waiting >= TOO_CROWDED or (own >= LARGEST_BATCH and own * len(self._waiting_of) >= waiting)

    async def room(self, tenant: str) -> None:
        """Wait until it has caught up far enough for more of this tenant.

        Raises:
            PaddockError: `ledger.broken`, there will be none for it.
        """
        if tenant in self.broken:
            raise self.broken[tenant]
        while self.crowded(tenant) and self.failing is None:
            await self.landed()

    async def landed(self) -> None:
        """Wait until something more is on disk, or could not be written."""
        self._written.clear()
        await self._written.wait()

    async def flushed(self) -> None:
        """Wait until everything accepted so far is on disk.

        Raises:
            PaddockError: it cannot be written.
        """
        await asyncio.sleep(0)  # calls that were answered just now are put down in a moment
        while self._waiting:
            self._hurry.set()
            await self.landed()
            if self.failing is not None:
                raise self.failing

    async def write_forever(self) -> None:
        """Write what is waiting, and what comes, in batches."""
        while True:
            await self._news.wait()
            if len(self._waiting) < LARGEST_BATCH and not self._hurry.is_set():
                await self._gather()
            self._news.clear()
            self._hurry.clear()
            await self._write_batch()
            # What came meanwhile, which others join; or to see whether writing is possible again.
            if self._waiting or self.failing is not None:
                self._news.set()

    async def _gather(self) -> None:
        try:
            async with asyncio.timeout(GATHER):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _write_batch(self) -> None:
        if not self._batch:
            # Named before the unit of work: a unit that is run again must write the same rows.
            taken = self._waiting[:LARGEST_BATCH]
            self._batch = list(zip(new_ids("evt", len(taken), self._clock, self._random), taken, strict=True))
        batch, again, mend = self._batch, self._doubtful, self._mending
        try:
            await self._database.write(lambda tx: self._write(tx, batch, again, mend))
        except Exception as error:
            if not mend and _unkeepable(error):
                self._mending = True  # one odd name must not keep all others out; looking for it costs, so only now
                return
            # Whatever it is: a host that cannot record must be seen to be unable to.
            await self._failed(
                error if isinstance(error, PaddockError) else HostError(f"events cannot be kept: {error}")
            )
            return
        self.failing, self._doubtful, self._mending, self._races = None, False, False, 0
        self.rows += len(batch)
        self._batch = []
        del self._waiting[: len(batch)]
        self._waiting_of -= Counter(one.tenant for _, one in batch)  # forgets those of whom none is left
        self._written.set()

    async def _failed(self, error: PaddockError) -> None:
        if error.error_code == "store.busy" and self._races < _PATIENCE:
            self._races += 1
            return
        self.failing, self._races = error, 0
        self._doubtful = self._doubtful or error.error_code == "store.outcome_unknown"
        self._written.set()
        await asyncio.sleep(RETRY_AFTER)

    def _write(self, tx: Transaction, batch: list[tuple[str, Draft]], again: bool, mend: bool) -> None:
        """Runs in the store's thread: hashing is kept off the event loop."""
        if not batch:
            tx.execute("UPDATE ledger_heads SET seq = seq")  # changes nothing, and needs room all the same
        append(tx, batch, self._random, again=again, mend=mend)


def _unkeepable(error: Exception) -> bool:
    return isinstance(error, TypeError) or (isinstance(error, PaddockError) and error.error_code == "store.statement")


@dataclass(frozen=True, slots=True)
class TenantEvents:
    """The `Publish` seam for one tenant."""

    writer: LedgerWriter
    tenant: Tenant

    def publish(self, event: Event) -> None:
        self.writer.take(event, self.tenant)

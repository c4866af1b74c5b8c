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
from paddock.core.events.event import Event
from paddock.core.ids import Tenant, new_ids
from paddock.ledger.entry import EntryDraft, EventSource
from paddock.ledger.write.append import append_entries
from paddock.store.database import Database, Transaction

MAX_QUEUED_ENTRIES = 50_000
SOFT_LIMIT_ENTRIES = 10_000  # from here on, whoever has made most of them is asked to wait
HARD_LIMIT_ENTRIES = 2 * SOFT_LIMIT_ENTRIES  # and from here on everybody
MAX_BATCH_ENTRIES = 500
RETRY_DELAY_S = 1.0
BATCH_DELAY_S = 0.05  # seconds for which a batch waits for more: a transaction of its own would cost more than a call
_MAX_LOST_RACES = 5  # lost races with other nodes before it counts as failing


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
        self._queue: list[EntryDraft] = []
        self._queued_by_tenant: Counter[str] = Counter()  # by tenant
        self._batch: list[tuple[str, EntryDraft]] = []  # what is being written, under the names that it will have
        self._outcome_unknown = False  # whether the batch may be on disk although it failed
        self._sanitizing = False  # whether a name in the batch may be one that no database keeps
        self._lost_races = 0
        self._flush_requested = asyncio.Event()
        self._entries_available = asyncio.Event()
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
    def queued(self) -> int:
        """How many entries were taken and are not on disk yet."""
        return len(self._queue)

    def publisher(self, tenant: Tenant) -> TenantPublisher:
        """The seam for everything that happens to one tenant's plugins."""
        return TenantPublisher(self, tenant)

    def enqueue(
        self,
        event: EventSource,
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
        if len(self._queue) >= MAX_QUEUED_ENTRIES:
            self.lost += 1
            return
        self._queued_by_tenant[tenant] += 1
        self._queue.append(EntryDraft(event, tenant, self._clock.now(), call, request, principal))
        if not self._entries_available.is_set():
            self._entries_available.set()
        if soon:
            self._flush_requested.set()

    def overloaded(self, tenant: str) -> bool:
        """Whether the disk does not keep up, and this tenant has its share in that: the others need not feel it. Or
        whether its chain is broken, so that nothing is to be added to it by calls."""
        if tenant in self.broken:
            return True
        waiting = len(self._queue)
        if waiting < SOFT_LIMIT_ENTRIES:
            return False
        own = self._queued_by_tenant[tenant]
        return waiting >= HARD_LIMIT_ENTRIES or (
            own >= MAX_BATCH_ENTRIES and own * len(self._queued_by_tenant) >= waiting
        )

    async def wait_for_room(self, tenant: str) -> None:
        """Wait until it has caught up far enough for more of this tenant.

        Raises:
            PaddockError: `ledger.broken`, there will be none for it.
        """
        if tenant in self.broken:
            raise self.broken[tenant]
        while self.overloaded(tenant) and self.failing is None:
            await self.wait_for_write()

    async def wait_for_write(self) -> None:
        """Wait until something more is on disk, or could not be written."""
        self._written.clear()
        await self._written.wait()

    async def flush(self) -> None:
        """Wait until everything accepted so far is on disk.

        Raises:
            PaddockError: it cannot be written.
        """
        await asyncio.sleep(0)  # calls that were answered just now are put down in a moment
        while self._queue:
            self._flush_requested.set()
            await self.wait_for_write()
            if self.failing is not None:
                raise self.failing

    async def write_forever(self) -> None:
        """Write what is waiting, and what comes, in batches."""
        while True:
            await self._entries_available.wait()
            if len(self._queue) < MAX_BATCH_ENTRIES and not self._flush_requested.is_set():
                await self._wait_for_more()
            self._entries_available.clear()
            self._flush_requested.clear()
            await self._write_batch()
            # What came meanwhile, which others join; or to see whether writing is possible again.
            if self._queue or self.failing is not None:
                self._entries_available.set()

    async def _wait_for_more(self) -> None:
        try:
            async with asyncio.timeout(BATCH_DELAY_S):
                await self._flush_requested.wait()
        except TimeoutError:
            pass

    async def _write_batch(self) -> None:
        if not self._batch:
            # Named before the unit of work: a unit that is run again must write the same rows.
            taken = self._queue[:MAX_BATCH_ENTRIES]
            self._batch = list(zip(new_ids("evt", len(taken), self._clock, self._random), taken, strict=True))
        batch, again, mend = self._batch, self._outcome_unknown, self._sanitizing
        try:
            await self._database.write(lambda tx: self._write(tx, batch, again, mend))
        except Exception as error:
            if not mend and _is_unstorable(error):
                self._sanitizing = True  # one odd name must not keep all others out; looking for it costs, so only now
                return
            # Whatever it is: a host that cannot record must be seen to be unable to.
            await self._handle_failure(
                error if isinstance(error, PaddockError) else HostError(f"events cannot be kept: {error}")
            )
            return
        self.failing, self._outcome_unknown, self._sanitizing, self._lost_races = None, False, False, 0
        self.rows += len(batch)
        self._batch = []
        del self._queue[: len(batch)]
        self._queued_by_tenant -= Counter(one.tenant for _, one in batch)  # forgets those of whom none is left
        self._written.set()

    async def _handle_failure(self, error: PaddockError) -> None:
        if error.error_code == "store.busy" and self._lost_races < _MAX_LOST_RACES:
            self._lost_races += 1
            return
        self.failing, self._lost_races = error, 0
        self._outcome_unknown = self._outcome_unknown or error.error_code == "store.outcome_unknown"
        self._written.set()
        await asyncio.sleep(RETRY_DELAY_S)

    def _write(self, tx: Transaction, batch: list[tuple[str, EntryDraft]], again: bool, mend: bool) -> None:
        """Runs in the store's thread: hashing is kept off the event loop."""
        if not batch:
            tx.execute("UPDATE ledger_heads SET seq = seq")  # changes nothing, and needs room all the same
        append_entries(tx, batch, self._random, again=again, mend=mend)


def _is_unstorable(error: Exception) -> bool:
    return isinstance(error, TypeError) or (isinstance(error, PaddockError) and error.error_code == "store.statement")


@dataclass(frozen=True, slots=True)
class TenantPublisher:
    """The `Publish` seam for one tenant."""

    writer: LedgerWriter
    tenant: Tenant

    def publish(self, event: Event) -> None:
        self.writer.enqueue(event, self.tenant)

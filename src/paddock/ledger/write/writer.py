"""The background writer of the ledger: accepts events without waiting and writes them in batches.

For facts from running plugins, which come thousands a second and outside any unit of work. Facts that belong to a unit
of work are recorded in it, with `TransactionLedger`.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from msgspec import Struct

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, PaddockError
from paddock.core.events.event import Event
from paddock.core.ids import Tenant, new_ids
from paddock.ledger.entry import EntryDraft, EventSource
from paddock.ledger.write.append import append_entries
from paddock.store.database import Database, Transaction

MAX_QUEUED_ENTRIES = 50_000
SOFT_LIMIT_ENTRIES = 10_000  # from here on, the tenants with the most queued entries wait
HARD_LIMIT_ENTRIES = 2 * SOFT_LIMIT_ENTRIES  # from here on, every tenant waits
MAX_BATCH_ENTRIES = 500
RETRY_DELAY_S = 1.0
BATCH_DELAY_S = 0.05  # how long a batch waits for more: a transaction each costs more than a call
_MAX_LOST_RACES = 5  # lost against other nodes before the writer counts as failing


class LedgerWriter:
    """Accepts events at once and writes them soon. While they cannot be written, `failing` holds the error.

    The queue is bounded. Callers use `wait_for_room` when the disk does not keep up. When nothing can be written at
    all, the gate refuses calls because of `failing`. Events that still arrive then, for instance from plugins that
    crash, are dropped and counted in `lost` once the queue is full.
    """

    def __init__(self, database: Database, clock: Clock, random: Random) -> None:
        self._database = database
        self._clock = clock
        self._random = random
        self._queue: list[EntryDraft] = []
        self._queued_by_tenant: Counter[str] = Counter()
        self._batch: list[tuple[str, EntryDraft]] = []  # being written, with the ids of the entries
        self._outcome_unknown = False  # whether the failed batch may have been committed
        self._sanitizing = False  # whether the batch may hold an id that no database can store
        self._lost_races = 0
        self._flush_requested = asyncio.Event()
        self._entries_available = asyncio.Event()
        self._written = asyncio.Event()
        self.failing: PaddockError | None = None
        self.unsigned: PaddockError | None = None
        """Why no checkpoint can be made; calls go on."""
        self.broken: dict[str, PaddockError] = {}
        """Broken chains by tenant; the gate refuses their calls."""
        self.lost = 0
        self.rows = 0
        """Entries written so far."""

    def note_unsigned(self, reason: PaddockError | None) -> None:
        """Note why no checkpoint can be made; None once one can."""
        self.unsigned = reason

    @property
    def queued(self) -> int:
        """How many entries were accepted and are not on disk yet."""
        return len(self._queue)

    def publisher(self, tenant: Tenant) -> TenantPublisher:
        """Return the `Publish` implementation for events of one tenant's plugins."""
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
        """Accept one event, with what is known of its call; `soon` skips the wait for a fuller batch.

        A function that creates the event is called in the store's thread, where it delays no call.
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
        """Whether this tenant must wait: the disk falls behind because of it, or its chain is broken.

        Other tenants are not slowed down by it. Calls must not add to a broken chain.
        """
        if tenant in self.broken:
            return True
        queued = len(self._queue)
        if queued < SOFT_LIMIT_ENTRIES:
            return False
        own_queued = self._queued_by_tenant[tenant]
        return queued >= HARD_LIMIT_ENTRIES or (
            own_queued >= MAX_BATCH_ENTRIES and own_queued * len(self._queued_by_tenant) >= queued
        )

    async def wait_for_room(self, tenant: str) -> None:
        """Wait until the queue has room for more entries of this tenant.

        Raises:
            PaddockError: `ledger.broken`, the tenant's chain is broken.
        """
        if tenant in self.broken:
            raise self.broken[tenant]
        while self.overloaded(tenant) and self.failing is None:
            await self.wait_for_write()

    async def wait_for_write(self) -> None:
        """Wait until the next batch is on disk, or has failed."""
        self._written.clear()
        await self._written.wait()

    async def flush(self) -> None:
        """Wait until everything accepted so far is on disk.

        Raises:
            PaddockError: it cannot be written.
        """
        await asyncio.sleep(0)  # calls that just ended enqueue their entry in the next loop iteration
        while self._queue:
            self._flush_requested.set()
            await self.wait_for_write()
            if self.failing is not None:
                raise self.failing

    async def write_forever(self) -> None:
        """Write queued entries in batches until cancelled."""
        while True:
            await self._entries_available.wait()
            if len(self._queue) < MAX_BATCH_ENTRIES and not self._flush_requested.is_set():
                await self._wait_for_more()
            self._entries_available.clear()
            self._flush_requested.clear()
            await self._write_batch()
            # Go on with entries that arrived meanwhile, or test whether writing works again.
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
            # Ids are assigned before the unit of work: a unit that is retried must write the same rows.
            drafts = self._queue[:MAX_BATCH_ENTRIES]
            self._batch = list(zip(new_ids("evt", len(drafts), self._clock, self._random), drafts, strict=True))
        batch, check_existing, sanitize = self._batch, self._outcome_unknown, self._sanitizing
        try:
            await self._database.write(lambda tx: self._write(tx, batch, check_existing, sanitize))
        except Exception as error:
            if not sanitize and _is_unstorable(error):
                self._sanitizing = True  # one odd id must not block all others; checking costs, so only now
                return
            # Any error counts: a host that cannot record must show it.
            await self._handle_failure(
                error if isinstance(error, PaddockError) else HostError(f"events cannot be kept: {error}")
            )
            return
        self.failing, self._outcome_unknown, self._sanitizing, self._lost_races = None, False, False, 0
        self.rows += len(batch)
        self._batch = []
        del self._queue[: len(batch)]
        self._queued_by_tenant -= Counter(one.tenant for _, one in batch)  # drops tenants at zero
        self._written.set()

    async def _handle_failure(self, error: PaddockError) -> None:
        if error.error_code == "store.busy" and self._lost_races < _MAX_LOST_RACES:
            self._lost_races += 1
            return
        self.failing, self._lost_races = error, 0
        self._outcome_unknown = self._outcome_unknown or error.error_code == "store.outcome_unknown"
        self._written.set()
        await asyncio.sleep(RETRY_DELAY_S)

    def _write(
        self, tx: Transaction, batch: list[tuple[str, EntryDraft]], check_existing: bool, sanitize: bool
    ) -> None:
        """Append the batch. Runs in the store's thread, which keeps hashing off the event loop."""
        if not batch:
            tx.execute("UPDATE ledger_heads SET seq = seq")  # changes nothing, but fails while the disk is full
        append_entries(tx, batch, self._random, check_existing=check_existing, sanitize=sanitize)


def _is_unstorable(error: Exception) -> bool:
    return isinstance(error, TypeError) or (isinstance(error, PaddockError) and error.error_code == "store.statement")


class TenantPublisher(Struct, frozen=True):
    """The `Publish` implementation for one tenant."""

    writer: LedgerWriter
    tenant: Tenant

    def publish(self, event: Event) -> None:
        self.writer.enqueue(event, self.tenant)

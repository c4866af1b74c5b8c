"""Events on their way to the table: published without waiting, written in batches a moment later.

For facts that come from running plugins, thousands a second and outside any unit of work. What belongs to a unit of
work is recorded in it, with `EventTable`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, PaddockError
from paddock.core.event import Event, to_record
from paddock.core.ids import Tenant, new_ids

from .database import Database
from .event_log import Recorded, record_all
from .transaction import Transaction

MOST_WAITING = 50_000
CROWDED = 10_000  # from here on, whoever makes more is asked to wait
LARGEST_BATCH = 1_000
RETRY_AFTER = 1.0
GATHER = 0.01  # seconds for which a batch waits for more: a transaction for each call would cost more than the call


class _Waiting(NamedTuple):
    event: Event
    tenant: str
    at: datetime


class EventWriter:
    """Takes events at once and writes them soon. While they cannot be written, `failing` says why.

    What waits is bounded. Callers who make events wait for `room` when the disk does not keep up; when nothing can be
    written at all, the gate refuses calls because of `failing`. What still comes after that, from plugins that crash
    for instance, is lost and counted once there is no space left for it.
    """

    def __init__(self, database: Database, clock: Clock, random: Random) -> None:
        self._database = database
        self._clock = clock
        self._random = random
        self._waiting: list[_Waiting] = []
        self._news = asyncio.Event()
        self._written = asyncio.Event()
        self.failing: PaddockError | None = None
        self.lost = 0

    def publisher(self, tenant: Tenant) -> TenantEvents:
        """The seam for everything that happens to one tenant's plugins."""
        return TenantEvents(self, tenant)

    def take(self, event: Event, tenant: str) -> None:
        """Accept one event."""
        if len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            return
        self._waiting.append(_Waiting(event, tenant, self._clock.now()))
        self._news.set()

    async def room(self) -> None:
        """Wait until the disk has caught up far enough for more; usually not at all."""
        while len(self._waiting) >= CROWDED and self.failing is None:
            self._written.clear()
            await self._written.wait()

    async def flushed(self) -> None:
        """Wait until everything accepted so far is on disk.

        Raises:
            PaddockError: it cannot be written.
        """
        while self._waiting:
            self._written.clear()
            await self._written.wait()
            if self.failing is not None:
                raise self.failing

    async def write_forever(self) -> None:
        """Write what is waiting, and what comes, in batches."""
        while True:
            await self._news.wait()
            if len(self._waiting) < LARGEST_BATCH:
                await asyncio.sleep(GATHER)
            self._news.clear()
            await self._write_batch()
            if self._waiting:  # what came meanwhile, which others join
                self._news.set()

    async def _write_batch(self) -> None:
        batch = self._waiting[:LARGEST_BATCH]
        # Named before the unit of work: a unit that is run again must write the same rows.
        named = list(zip(new_ids("evt", len(batch), self._clock, self._random), batch, strict=True))
        try:
            await self._database.write(lambda tx: _write(tx, named))
        except Exception as error:
            # Whatever it is: a host that cannot record must be seen to be unable to.
            self.failing = error if isinstance(error, PaddockError) else HostError(f"events cannot be kept: {error}")
            self._written.set()
            await asyncio.sleep(RETRY_AFTER)
            return
        self.failing = None
        del self._waiting[: len(batch)]
        self._written.set()


def _write(tx: Transaction, named: list[tuple[str, _Waiting]]) -> None:
    events: list[Recorded] = []
    for event_id, one in named:
        data = to_record(one.event)
        events.append(Recorded(event_id, one.at.isoformat(), one.event.type, one.tenant, data.get("name"), data))
    record_all(tx, events)


@dataclass(frozen=True, slots=True)
class TenantEvents:
    """The `Publish` seam for one tenant."""

    writer: EventWriter
    tenant: Tenant

    def publish(self, event: Event) -> None:
        self.writer.take(event, self.tenant)


@asynccontextmanager
async def open_event_writer(database: Database, clock: Clock, random: Random) -> AsyncGenerator[EventWriter, None]:
    """The writer for as long as the block runs; what was accepted is written before it ends, where it can be."""
    writer = EventWriter(database, clock, random)
    task = asyncio.create_task(writer.write_forever(), name="write events")
    try:
        yield writer
    finally:
        with contextlib.suppress(PaddockError, TimeoutError):
            async with asyncio.timeout(10):
                await writer.flushed()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

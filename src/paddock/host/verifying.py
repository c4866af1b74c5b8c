"""Verifying a tenant's chain while the host runs: on a thread of its own, one at a time, with how far it is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.core.time_text import time_text
from paddock.ledger.checkpoint import Checkpoint, checkpoint_file, last_in
from paddock.ledger.verify import Finding
from paddock.ledger.verifying import verify_ledger
from paddock.ledger.writer import LedgerWriter
from paddock.store.database import DirectDatabase

_BREATH = 0.002  # seconds after each page of rows, for whoever else has something to do
_APART = 0.3  # seconds at least between two words of how far it is


@dataclass(frozen=True, slots=True)
class Verification:
    """How far the verifying of one chain is, or what it found.

    Attributes:
        by: Who wanted it.
        rows: How many are looked at; 0 while another chain is being verified.
        there: How many there are.
        finding: What was found, once it is over.
    """

    by: str
    began_at: str
    rows: int = 0
    there: int = 0
    ended_at: str | None = None
    finding: Finding | None = None

    @property
    def over(self) -> bool:
        return self.finding is not None


class Verifying:
    """Verifies chains, and keeps what was found of each last.

    Args:
        opening: Opens the database on the thread that reads it.
        state: Where checkpoints and public keys are.
        ledger: Has to be on disk before it is read.
        tasks: Live as long as the host.
        clock: The time.
    """

    def __init__(
        self,
        opening: Callable[[], AbstractContextManager[DirectDatabase]],
        state: Path,
        ledger: LedgerWriter,
        tasks: TaskGroup,
        clock: Clock,
    ) -> None:
        self._opening = opening
        self._state = state
        self._ledger = ledger
        self._tasks = tasks
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._known: dict[Tenant, Verification] = {}

    def of(self, tenant: Tenant) -> Verification | None:
        """How far it is, or what was found last since the host runs."""
        return self._known.get(tenant)

    def begin(self, tenant: Tenant, by: str) -> Verification:
        """Verify a tenant's chain; where that is being done already, this is it."""
        known = self._known.get(tenant)
        if known is not None and not known.over:
            return known
        begun = self._known[tenant] = Verification(by, time_text(self._clock.now()))
        self._tasks.start_soon(self._verify, tenant)
        return begun

    async def changes(self, tenant: Tenant) -> AsyncGenerator[Verification, None]:
        """How far it is, again and again until it is over; nothing where none was begun."""
        shown: Verification | None = None
        while (known := self._known.get(tenant)) is not None:
            if known != shown:
                shown = known
                yield known
            if known.over:
                return
            await asyncio.sleep(_APART)

    async def last_checkpoint(self, tenant: Tenant) -> Checkpoint | None:
        """What of a chain was signed last.

        Raises:
            HostError: the file of checkpoints ends with what is none.
        """
        return await asyncio.to_thread(last_in, checkpoint_file(self._state, tenant))

    async def _verify(self, tenant: Tenant) -> None:
        finding = Finding(tenant, "unreadable", "the host went down before the end was reached")
        try:
            async with self._one_at_a_time:
                with suppress(PaddockError):  # what is on disk can be verified all the same
                    await self._ledger.flushed()
                finding = await self._found(tenant)
        finally:
            known = self._known[tenant]
            self._known[tenant] = replace(known, finding=finding, ended_at=time_text(self._clock.now()))

    async def _found(self, tenant: Tenant) -> Finding:
        stop = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(self._walk, tenant, stop))
        try:
            return await asyncio.shield(work)
        finally:
            stop.set()
            # A thread cannot be cancelled; it sees this after its page of rows, and must not outlive the database.
            with anyio.CancelScope(shield=True):
                await asyncio.wait({work})

    def _walk(self, tenant: Tenant, stop: threading.Event) -> Finding:
        def report(_: str, rows: int, there: int) -> None:
            if stop.is_set():
                raise _Stopped
            self._known[tenant] = replace(self._known[tenant], rows=rows, there=there)
            time.sleep(_BREATH)

        try:
            with self._opening() as database:
                (finding,) = verify_ledger(database, self._state, tenant=tenant, report=report)
                return finding
        except _Stopped:
            return Finding(tenant, "unreadable", "the host went down before the end was reached")
        except PaddockError as error:
            return Finding(tenant, "unreadable", error.message)


class _Stopped(Exception):
    """Nobody waits for it any more."""

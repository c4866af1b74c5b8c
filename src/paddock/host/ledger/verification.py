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

from paddock.core.clock import Clock, format_utc
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.ledger.chain.checkpoint import Checkpoint, checkpoint_file, last_checkpoint_in
from paddock.ledger.chain.verifier import ChainFinding
from paddock.ledger.chain.verify import verify_ledger
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import DirectDatabase

_PAGE_PAUSE_S = 0.002  # seconds after each page of rows, for whoever else has something to do
_PROGRESS_INTERVAL_S = 0.3  # seconds at least between two words of how far it is


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
    finding: ChainFinding | None = None

    @property
    def finished(self) -> bool:
        return self.finding is not None


class VerificationService:
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
        self._open_database = opening
        self._state = state
        self._ledger = ledger
        self._tasks = tasks
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._latest_by_tenant: dict[Tenant, Verification] = {}

    def latest(self, tenant: Tenant) -> Verification | None:
        """How far it is, or what was found last since the host runs."""
        return self._latest_by_tenant.get(tenant)

    def start(self, tenant: Tenant, by: str) -> Verification:
        """Verify a tenant's chain; where that is being done already, this is it."""
        known = self._latest_by_tenant.get(tenant)
        if known is not None and not known.finished:
            return known
        begun = self._latest_by_tenant[tenant] = Verification(by, format_utc(self._clock.now()))
        self._tasks.start_soon(self._verify, tenant)
        return begun

    async def watch(self, tenant: Tenant) -> AsyncGenerator[Verification, None]:
        """How far it is, again and again until it is over; nothing where none was begun."""
        shown: Verification | None = None
        while (known := self._latest_by_tenant.get(tenant)) is not None:
            if known != shown:
                shown = known
                yield known
            if known.finished:
                return
            await asyncio.sleep(_PROGRESS_INTERVAL_S)

    async def last_checkpoint(self, tenant: Tenant) -> Checkpoint | None:
        """What of a chain was signed last.

        Raises:
            HostError: the file of checkpoints ends with what is none.
        """
        return await asyncio.to_thread(last_checkpoint_in, checkpoint_file(self._state, tenant))

    async def _verify(self, tenant: Tenant) -> None:
        finding = ChainFinding(tenant, "unreadable", "the host went down before the end was reached")
        try:
            async with self._one_at_a_time:
                with suppress(PaddockError):  # what is on disk can be verified all the same
                    await self._ledger.flush()
                finding = await self._verify_on_thread(tenant)
        finally:
            known = self._latest_by_tenant[tenant]
            self._latest_by_tenant[tenant] = replace(known, finding=finding, ended_at=format_utc(self._clock.now()))

    async def _verify_on_thread(self, tenant: Tenant) -> ChainFinding:
        stop = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(self._verify_blocking, tenant, stop))
        try:
            return await asyncio.shield(work)
        finally:
            stop.set()
            # A thread cannot be cancelled; it sees this after its page of rows, and must not outlive the database.
            with anyio.CancelScope(shield=True):
                await asyncio.wait({work})

    def _verify_blocking(self, tenant: Tenant, stop: threading.Event) -> ChainFinding:
        def report(_: str, rows: int, there: int) -> None:
            if stop.is_set():
                raise _VerificationStopped
            self._latest_by_tenant[tenant] = replace(self._latest_by_tenant[tenant], rows=rows, there=there)
            time.sleep(_PAGE_PAUSE_S)

        try:
            with self._open_database() as database:
                (finding,) = verify_ledger(database, self._state, tenant=tenant, report=report)
                return finding
        except _VerificationStopped:
            return ChainFinding(tenant, "unreadable", "the host went down before the end was reached")
        except PaddockError as error:
            return ChainFinding(tenant, "unreadable", error.message)


class _VerificationStopped(Exception):
    """Nobody waits for it any more."""

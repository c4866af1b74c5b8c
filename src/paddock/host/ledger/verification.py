"""Verifies a tenant's ledger chain while the host runs: on a thread of its own, one at a time, with progress."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from paddock.core.clock import Clock, format_utc
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.ledger.chain.checkpoint import Checkpoint, checkpoint_file, last_checkpoint_in
from paddock.ledger.chain.verifier import ChainFinding
from paddock.ledger.chain.verify import verify_ledger
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import DirectDatabase

_PAGE_PAUSE_S = 0.002  # after each page of rows, to leave time for other threads
_PROGRESS_INTERVAL_S = 0.3


class Verification(Struct, frozen=True):
    """The progress or the result of verifying one chain.

    Attributes:
        by: The principal that requested it.
        rows: Number of rows verified; 0 while another chain is being verified.
        there: Number of rows in total.
        finding: The result, once finished.
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
    """Verifies chains, and keeps the last result of each.

    Args:
        open_database: Opens the database on the thread that reads it.
        state: The directory of checkpoints and public keys.
        ledger: Flushed before each verification.
        tasks: Runs verifications.
        clock: The time.
    """

    def __init__(
        self,
        open_database: Callable[[], AbstractContextManager[DirectDatabase]],
        state: Path,
        ledger: LedgerWriter,
        tasks: TaskGroup,
        clock: Clock,
    ) -> None:
        self._open_database = open_database
        self._state = state
        self._ledger = ledger
        self._tasks = tasks
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._latest_by_tenant: dict[Tenant, Verification] = {}

    def latest(self, tenant: Tenant) -> Verification | None:
        """Return the running or last verification of a tenant since the host started."""
        return self._latest_by_tenant.get(tenant)

    def start(self, tenant: Tenant, by: str) -> Verification:
        """Start verifying a tenant's chain, or return the verification that is running already."""
        latest = self._latest_by_tenant.get(tenant)
        if latest is not None and not latest.finished:
            return latest
        verification = self._latest_by_tenant[tenant] = Verification(by, format_utc(self._clock.now()))
        self._tasks.start_soon(self._verify, tenant)
        return verification

    async def watch(self, tenant: Tenant) -> AsyncGenerator[Verification, None]:
        """Yield the verification whenever it changes, until it is finished; nothing if none was started."""
        previous: Verification | None = None
        while (current := self._latest_by_tenant.get(tenant)) is not None:
            if current != previous:
                previous = current
                yield current
            if current.finished:
                return
            await asyncio.sleep(_PROGRESS_INTERVAL_S)

    async def last_checkpoint(self, tenant: Tenant) -> Checkpoint | None:
        """Return the last signed checkpoint of a chain.

        Raises:
            HostError: the checkpoint file is malformed at its end.
        """
        return await asyncio.to_thread(last_checkpoint_in, checkpoint_file(self._state, tenant))

    async def _verify(self, tenant: Tenant) -> None:
        finding = ChainFinding(tenant, "unreadable", "the host went down before the end was reached")
        try:
            async with self._one_at_a_time:
                with suppress(PaddockError):  # what is on disk can still be verified
                    await self._ledger.flush()
                finding = await self._verify_on_thread(tenant)
        finally:
            current = self._latest_by_tenant[tenant]
            self._latest_by_tenant[tenant] = replace(current, finding=finding, ended_at=format_utc(self._clock.now()))

    async def _verify_on_thread(self, tenant: Tenant) -> ChainFinding:
        stop = threading.Event()
        verification = asyncio.ensure_future(asyncio.to_thread(self._verify_blocking, tenant, stop))
        try:
            return await asyncio.shield(verification)
        finally:
            stop.set()
            # A thread cannot be cancelled; it checks `stop` after each page of rows, and must not outlive the database.
            with anyio.CancelScope(shield=True):
                await asyncio.wait({verification})

    def _verify_blocking(self, tenant: Tenant, stop: threading.Event) -> ChainFinding:
        def report(_: str, row_count: int, total: int) -> None:
            if stop.is_set():
                raise _VerificationStopped
            self._latest_by_tenant[tenant] = replace(self._latest_by_tenant[tenant], rows=row_count, there=total)
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
    """The host shuts down. Raised in the worker thread to leave it."""

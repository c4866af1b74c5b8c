"""One plugin's database while the host runs: its lock, and its open transaction.

Statements on a file run one at a time. A transaction holds the lock from begin to commit, so the plugin's other
requests wait for its end, up to a timeout.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct

from paddock.capabilities.sql.connection import GuardedConnection
from paddock.capabilities.sql.limits import StorageLimits
from paddock.core.errors import Busy, Conflict, NotFound, PaddockError
from paddock.core.ids import CallId
from paddock.core.printable import printable

T = TypeVar("T")

_MAX_REMEMBERED_ENDS = 32


class OpenTransaction(Struct, eq=False):
    """A transaction in progress."""

    id: str
    instance: str  # the process that began it
    ends_at: float  # deadline, by the loop's clock
    call: CallId | None = None  # the call that began it
    atomic: bool = False  # whether that call's changes are recorded
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class PluginDatabase:
    """The event loop's state of one file. The file itself is only touched on worker threads."""

    def __init__(self, path: Path, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self.path = path
        self.file: GuardedConnection | None = None
        self.transaction: OpenTransaction | None = None
        self.statement_lock = asyncio.Lock()  # one statement at a time within the transaction
        self.released_calls: list[str] = []  # calls whose effect records are no longer needed
        self.old_records_deleted = False  # whether old effect records were deleted since this host started
        self._lock = asyncio.Lock()
        self._thread_lock = Lock()
        self._waiting = 0
        self._limits = limits
        self._monotonic = monotonic
        self._ends: OrderedDict[str, str] = OrderedDict()

    def take_file(self) -> GuardedConnection | None:
        """Hand over the open file, which the caller has to close; None if it is not open."""
        file, self.file = self.file, None
        return file

    def note_recorded(self, deleted_calls: Collection[str]) -> None:
        """Note that an effect was recorded, which deletes old records and those of released calls."""
        self.old_records_deleted = True
        self.released_calls = [call for call in self.released_calls if call not in deleted_calls]

    @property
    def idle(self) -> bool:
        """Whether it is neither locked nor waited for."""
        return not self._lock.locked() and not self._waiting

    async def acquire(self) -> None:
        """Wait for the lock; the holder calls `release`.

        Raises:
            Busy: too many are waiting already, or it took too long.
        """
        if self.idle:
            await self._lock.acquire()
            return
        if self._waiting >= self._limits.waiting_calls:
            raise _busy_error(f"{self._waiting} calls wait for this plugin's storage already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._lock.acquire()
        except TimeoutError:
            subject = "a transaction is" if self.transaction else "other calls are"
            raise _busy_error(f"{subject} under way in this plugin's storage for too long") from None
        finally:
            self._waiting -= 1

    def release(self) -> None:
        self._lock.release()

    def require_transaction(self, transaction_id: str, instance: str) -> OpenTransaction:
        """Return the open transaction, if it has this id.

        Raises:
            Conflict: `storage.transaction_over`, with the reason.
            NotFound: there never was one of that id.
        """
        transaction = self.transaction
        if transaction is not None and (transaction.id, transaction.instance) == (transaction_id, instance):
            return transaction
        if transaction_id in self._ends:
            raise Conflict(
                f"this transaction is over: {self._ends[transaction_id]}",
                code="storage.transaction_over",
                hint="begin another one, and do its work again",
            )
        raise NotFound(f"there is no transaction {printable(transaction_id, 40)}", code="storage.no_transaction")

    def end_transaction(self, transaction: OpenTransaction, reason: str) -> None:
        """Remember that it is over and why, and release the lock."""
        transaction.stop_timer()
        self.transaction = None
        self._ends[transaction.id] = reason
        if len(self._ends) > _MAX_REMEMBERED_ENDS:
            self._ends.popitem(last=False)
        self.release()

    def with_file(self, work: Callable[[GuardedConnection], T]) -> T:
        """Run work on the file; call it on a worker thread while holding the lock.

        A damaged file is closed, so that one restored from a backup is picked up.
        """
        # A cancelled request lets go of the asynchronous lock while its statement still runs on its thread. SQLite
        # allows one thread at a time, so the rollback that follows waits here for the statement to end.
        with self._thread_lock:
            try:
                if self.file is None:
                    self.file = GuardedConnection(self.path, self._limits, self._monotonic)
                return work(self.file)
            except PaddockError as error:
                if error.error_code in ("storage.corrupt", "storage.unavailable") and self.file is not None:
                    self.file.close()
                    self.file = None
                raise


def belongs_to_transaction(method: str, params: Mapping[str, Any]) -> bool:
    """Whether a request belongs to a transaction.

    The plugin's other storage requests wait for the end of that, so such a request must get through however many wait.
    """
    return ".storage." in method and isinstance(params.get("transaction"), str)


def _busy_error(message: str) -> Busy:
    return Busy(message, code="storage.busy", hint="try again in a moment")

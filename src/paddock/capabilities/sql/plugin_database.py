"""One plugin's storage while the host runs: whose turn it is, and the transaction that is open.

Calls take turns: one statement at a time on a file. A transaction keeps the turn from begin to commit, so whatever else
the plugin asks for meanwhile waits for its end, and gives up after a while.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from paddock.capabilities.sql.connection import GuardedConnection
from paddock.capabilities.sql.limits import StorageLimits
from paddock.core.errors import Busy, Conflict, NotFound, PaddockError
from paddock.core.ids import CallId
from paddock.core.printable import printable

T = TypeVar("T")

_MAX_REMEMBERED_ENDS = 32


@dataclass(slots=True, eq=False)
class OpenTransaction:
    """A transaction under way."""

    id: str
    instance: str  # the process that began it
    ends_at: float  # at the latest, by the loop's clock
    call: CallId | None = None  # in which it was begun
    atomic: bool = False  # whether that call notes what it changes
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class PluginDatabase:
    """What the event loop knows of one file. The file itself is touched on worker threads only."""

    def __init__(self, path: Path, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self.path = path
        self.file: GuardedConnection | None = None
        self.transaction: OpenTransaction | None = None
        self.step = asyncio.Lock()  # within the transaction: one statement at a time
        self.over: list[str] = []  # calls whose notes nobody will ask for
        self.looked_through = False  # whether old notes were let go of since this host runs
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._limits = limits
        self._monotonic = monotonic
        self._ends: OrderedDict[str, str] = OrderedDict()

    @property
    def idle(self) -> bool:
        """Whether nobody uses it or waits for it."""
        return not self._turn.locked() and not self._waiting

    async def acquire(self) -> None:
        """Wait for one's turn; whoever has it calls `end_turn`.

        Raises:
            Busy: too many wait already, or it took too long.
        """
        if self.idle:
            await self._turn.acquire()
            return
        if self._waiting >= self._limits.waiting_calls:
            raise _busy_error(f"{self._waiting} calls wait for this plugin's storage already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._turn.acquire()
        except TimeoutError:
            why = "a transaction is" if self.transaction else "other calls are"
            raise _busy_error(f"{why} under way in this plugin's storage for too long") from None
        finally:
            self._waiting -= 1

    def release(self) -> None:
        self._turn.release()

    def require_transaction(self, transaction_id: str, instance: str) -> OpenTransaction:
        """The open transaction, where that is the one meant.

        Raises:
            Conflict: `storage.transaction_over`, with the reason.
            NotFound: there never was one of that id.
        """
        open_now = self.transaction
        if open_now is not None and (open_now.id, open_now.instance) == (transaction_id, instance):
            return open_now
        if transaction_id in self._ends:
            raise Conflict(
                f"this transaction is over: {self._ends[transaction_id]}",
                code="storage.transaction_over",
                hint="begin another one, and do its work again",
            )
        raise NotFound(f"there is no transaction {printable(transaction_id, 40)}", code="storage.no_transaction")

    def end_transaction(self, transaction: OpenTransaction, why: str) -> None:
        """Note that it is over and why, and let the others go on."""
        transaction.stop_timer()
        self.transaction = None
        self._ends[transaction.id] = why
        if len(self._ends) > _MAX_REMEMBERED_ENDS:
            self._ends.popitem(last=False)
        self.release()

    def with_file(self, work: Callable[[GuardedConnection], T]) -> T:
        """Work with the file, on a worker thread and in turn.

        A file found damaged is let go of, so that one restored from a backup is seen.
        """
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
    """Whether a request belongs to a transaction: everything else that the plugin asks of its storage waits for the end
    of that, so however much waits, this must come through.
    """
    return ".storage." in method and isinstance(params.get("transaction"), str)


def _busy_error(why: str) -> Busy:
    return Busy(why, code="storage.busy", hint="try again in a moment")

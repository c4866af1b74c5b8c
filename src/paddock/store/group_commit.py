"""The embedded database for many callers: one writer that commits in groups, and readers beside it.

Units queue up for one writer thread. It runs those that are waiting one after another and commits them together: the
sync to disk is what costs, and a group pays it once. Commit hooks of several units run once for all. No caller is
answered before the commit is durable. A unit that raises affects no other: where it had changed rows, the group is
rolled back and runs again, each unit in a savepoint of its own. Nor does one affect others whose commit hook fails; a
commit that fails fails the whole group.

Threads start with the first unit that needs them. All callers must use the event loop it was opened on.
"""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal, NamedTuple, TypeVar

import apsw

from paddock.core.errors import PaddockError, StoreUnavailable
from paddock.core.tasks import DeferredCancellation, take_slot
from paddock.store.lock import Role
from paddock.store.open_in_thread import open_in_thread
from paddock.store.sqlite import SqliteDirect, SqliteTransaction, connect, to_paddock_error, transaction
from paddock.store.transaction import Transaction

T = TypeVar("T")

_MAX_GROUP_UNITS = 256
_MAX_PENDING_UNITS = 1024  # units accepted and not answered; the next caller waits
_READERS = 4


class _Unit:
    __slots__ = ("answer", "fn", "outcome")

    def __init__(self, fn: Callable[[Transaction], Any], answer: asyncio.Future[Any]) -> None:
        self.fn = fn
        self.answer = answer  # set and replaced on the loop alone
        self.outcome: _Outcome | None = None

    def settle(self) -> None:
        """Give the outcome to whoever waits; the caller may just have been cancelled, and then asks again."""
        if self.outcome is None or self.answer.done():
            return
        if self.outcome.error is None:
            self.answer.set_result(self.outcome.result)
        else:
            self.answer.set_exception(self.outcome.error)


class _UnitLeftChanges(Exception):
    """A unit that ran without a savepoint failed after it had changed rows."""


class _Outcome(NamedTuple):
    unit: _Unit
    result: Any
    error: BaseException | None


async def open_group_commit(path: Path, *, migrations: Path, role: Role, wait: float) -> GroupCommit:
    """Open the embedded database without blocking the event loop while another process has it."""
    return GroupCommit(
        await open_in_thread(lambda: SqliteDirect.open(path, migrations=migrations, role=role, wait=wait))
    )


class GroupCommit:
    """A `Database` over one SQLite file. Owns the connection and the lock it was given, and closes them."""

    engine: Literal["sqlite"] = "sqlite"

    def __init__(self, direct: SqliteDirect) -> None:
        self._direct = direct
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[_Unit] | None] = SimpleQueue()
        self._handed_over: list[_Unit] = []  # in this iteration of the loop
        self._write_slots = asyncio.Semaphore(_MAX_PENDING_UNITS)
        self._read_slots = asyncio.Semaphore(_MAX_PENDING_UNITS)
        self._writer: Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        # A list as a stack: append and pop are atomic, and the pool has no more threads than it may have connections.
        self._idle_readers: list[apsw.Connection] = []
        self._closing: asyncio.Future[None] | None = None

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        await take_slot(self._write_slots, deferral)  # released when the unit is answered
        if self._closing is not None:
            self._write_slots.release()
            raise _closed_error(self._direct.path)
        if self._writer is None:
            self._writer = Thread(target=self._write_groups, name="paddock-store-writer", daemon=True)
            self._writer.start()
        unit = _Unit(fn, self._loop.create_future())
        if not self._handed_over:
            # Many callers are woken up together. What they write now goes to the thread at once, which else would
            # begin with the first of them.
            self._loop.call_soon(self._hand_over)
        self._handed_over.append(unit)
        while True:
            try:
                return await unit.answer
            except asyncio.CancelledError as cancellation:
                if deferral is None:
                    raise
                deferral.hold(cancellation)
                if unit.answer.cancelled():  # else it was answered in the same moment
                    unit.answer = self._loop.create_future()
                    unit.settle()  # the outcome may have come between the cancellation and this line

    def _hand_over(self) -> None:
        units, self._handed_over = self._handed_over, []
        self._queue.put(units)

    async def read(self, fn: Callable[[Transaction], T]) -> T:
        async with self._read_slots:
            if self._closing is not None:
                raise _closed_error(self._direct.path)
            if self._readers is None:
                self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="paddock-store-reader")
            return await self._loop.run_in_executor(self._readers, self._read, fn)

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(asyncio.to_thread(self._close))
        # Shielded: a cancelled caller stops waiting, but the store is closed all the same.
        await asyncio.shield(self._closing)

    # From here on: other threads.

    def _close(self) -> None:
        try:
            if self._writer is not None:
                self._queue.put(None)
                self._writer.join()
            if self._readers is not None:
                self._readers.shutdown()
            for connection in self._idle_readers:
                connection.close()
        finally:
            self._direct.close()

    def _read(self, fn: Callable[[Transaction], T]) -> T:
        path = self._direct.path
        connection = self._idle_readers.pop() if self._idle_readers else connect(path, read_only=True)
        try:
            with transaction(connection, path, "BEGIN") as tx:
                return tx.run(fn)
        finally:
            self._idle_readers.append(connection)

    def _write_groups(self) -> None:
        closing = False
        while not closing:
            group: list[_Unit] = []
            units = self._queue.get()
            while units is not None:
                group += units
                if len(group) >= _MAX_GROUP_UNITS:
                    break
                try:
                    units = self._queue.get_nowait()
                except Empty:
                    break
            closing = units is None
            for begin in range(0, len(group), _MAX_GROUP_UNITS):
                self._notify_callers(self._commit(group[begin : begin + _MAX_GROUP_UNITS]))

    def _commit(self, group: list[_Unit]) -> list[_Outcome]:
        """Run a group in one transaction, and return the outcome of each unit once it is certain.

        Nearly all units succeed, or fail before they change anything, so savepoints are made only where one did not:
        they would be half of all statements.
        """
        try:
            return self._commit_group(group, savepoints=False)
        except _UnitLeftChanges:
            return self._commit_group(group, savepoints=True)

    def _commit_group(self, group: list[_Unit], *, savepoints: bool) -> list[_Outcome]:
        """As `_commit`.

        Raises:
            _UnitLeftChanges: nothing of the group was kept.
        """
        hook_error: BaseException | None = None
        try:
            with transaction(self._direct.connection, self._direct.path, "BEGIN IMMEDIATE") as group_tx:
                outcomes = [self._run(unit, group_tx, savepoint=savepoints) for unit in group]
                try:
                    group_tx.run_without_hooks(group_tx.run_commit_hooks)
                except BaseException as error:
                    hook_error = error
                    raise
        except _UnitLeftChanges:
            raise
        except BaseException as error:  # the thread must live on, and every caller be answered
            if hook_error is None or isinstance(hook_error, StoreUnavailable):
                return [_Outcome(unit, None, _group_failed_error(error)) for unit in group]
            if len(group) == 1:
                return [_Outcome(group[0], None, hook_error)]
            # A commit hook of one unit failed: it must not fail the others.
            return [outcome for unit in group for outcome in self._commit([unit])]
        return outcomes

    def _run(self, unit: _Unit, group_tx: SqliteTransaction, *, savepoint: bool) -> _Outcome:
        connection, path = self._direct.connection, self._direct.path
        if savepoint:
            connection.execute("SAVEPOINT unit")
        changes_before = connection.total_changes()
        tx = SqliteTransaction(connection, path)
        try:
            result = tx.run_without_hooks(unit.fn)
        except BaseException as error:  # belongs to the unit's caller, whatever it is
            if not connection.in_transaction:
                # Out of space or memory, SQLite rolled back the whole group: all of it has failed.
                raise tx.failure or to_paddock_error(apsw.AbortError(str(error)), connection, path) from error
            if savepoint:
                connection.execute("ROLLBACK TO unit")
                connection.execute("RELEASE unit")
            elif connection.total_changes() != changes_before:
                raise _UnitLeftChanges from error
            return _Outcome(unit, None, error)
        if savepoint:
            connection.execute("RELEASE unit")
        for hook, items in tx.commit_hooks.items():
            group_tx.commit_hooks.setdefault(hook, []).extend(items)
        return _Outcome(unit, result, None)

    def _notify_callers(self, outcomes: list[_Outcome]) -> None:
        """Answer a whole group with one wake-up of the loop: one for each would cost more than the writing."""
        with suppress(RuntimeError):  # the loop is gone, and with it every caller
            self._loop.call_soon_threadsafe(self._set_results, outcomes)

    def _set_results(self, outcomes: list[_Outcome]) -> None:
        for outcome in outcomes:
            self._write_slots.release()
            outcome.unit.outcome = outcome
            outcome.unit.settle()


def _group_failed_error(error: BaseException) -> StoreUnavailable:
    """The error for one caller; each gets its own, because an error keeps its traceback."""
    if isinstance(error, PaddockError):
        failure = StoreUnavailable(error.message, code=error.error_code, hint=error.hint, details=error.details)
    else:
        failure = StoreUnavailable(f"the commit failed: {error}")
    failure.__cause__ = error
    return failure


def _closed_error(path: Path) -> StoreUnavailable:
    return StoreUnavailable(f"the store {path} is closed", code="store.closed")

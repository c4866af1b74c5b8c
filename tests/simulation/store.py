"""The embedded database as a daemon has it, on a disk of the simulation and without threads.

The units, the groups, their savepoints and their commits are those of `GroupCommit` and of SQLite. Only who runs them
is another: a callback of the loop instead of a thread. So a host can die before its units are written, between the
commit and its answer, and in the middle of any commit.
"""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import apsw
from tests.simulation.seeded_loop import SeededLoop

from paddock.store.group_commit import GroupCommit
from paddock.store.sqlite import SqliteDirect, connect

CHECKPOINT_EVERY = 4  # groups: often enough that hosts die over one


class _Queue:
    """What waits for the writer; never blocks, for whoever takes from it takes all there is."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._units: deque[Any] = deque()
        self._told = told

    def put(self, unit: Any) -> None:
        self._units.append(unit)
        self._told()

    def get(self) -> Any:
        return self._units.popleft() if self._units else None

    def get_nowait(self) -> Any:
        if not self._units:
            raise Empty
        return self._units.popleft()


class _Writer:
    """In the place of the thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.join = work


class SimulatedStore(GroupCommit):
    """A `Database`; see above.

    Args:
        direct: The connection.
        loop: Where it works.
        after: Told after each group that was committed.
    """

    def __init__(self, direct: SqliteDirect, loop: SeededLoop, after: Callable[[SqliteDirect], None]) -> None:
        super().__init__(direct)
        self._seeded = loop
        self._after = after
        self._groups = 0
        self._booked = False
        self._queue = _Queue(self._book)  # pyright: ignore[reportAttributeAccessIssue]
        self._writer = _Writer(self._write_groups)  # pyright: ignore[reportAttributeAccessIssue]

    def _book(self) -> None:
        if not self._booked:
            self._booked = True
            self._loop.call_later(self._seeded.a_while(), self._turn)

    def _turn(self) -> None:
        self._booked = False
        self._write_groups()

    def _read(self, fn: Callable[[Any], Any]) -> Any:
        return self._direct.read(fn)  # the one connection: there is nobody to read while it writes

    def _commit(self, group: list[Any]) -> list[Any]:
        outcomes = super()._commit(group)
        self._groups += 1
        if self._groups % CHECKPOINT_EVERY == 0:
            # As SQLite does by itself now and then, and no less without a word where it fails.
            with suppress(apsw.Error):
                self._direct.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._after(self._direct)
        return outcomes

    def _notify_callers(self, outcomes: list[Any]) -> None:
        self._loop.call_later(self._seeded.a_while(), self._set_results, outcomes)


def open_direct_at(path: Path, *, synchronous: str = "FULL") -> SqliteDirect:
    """A connection to a store that is migrated already."""
    connection = connect(path, unshared=True)
    connection.pragma("wal_autocheckpoint", 0)
    if synchronous != "FULL":
        connection.pragma("synchronous", synchronous)
    return SqliteDirect(path, connection, None)

"""What a plugin's SQL may do: the answers to SQLite's own questions while it compiles a statement.

SQLite asks before every table it reads or writes, every function, every change of the schema, also for what views,
triggers and full-text tables do on the plugin's behalf. What is not on a list here is refused, so that a newer SQLite
with more in it opens nothing.
"""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Self

import apsw

from paddock.capabilities.sql.effect_records import EFFECTS_TABLE as NOTES
from paddock.capabilities.sql.functions import (
    ALLOWED_FUNCTIONS,
    ALLOWED_MODULES,
    ALTER_TABLE_FUNCTIONS,
    FORBIDDEN_TABLES,
    JSON_AGGREGATES,
    JSON_BUILDERS,
    PATTERN_FUNCTIONS,
    QUADRATIC_FUNCTIONS,
    READABLE_INTERNAL_TABLES,
)
from paddock.capabilities.sql.limits import (
    AGGREGATE_CHECK_INTERVAL_INSTRUCTIONS,
    CHECK_INTERVAL_INSTRUCTIONS,
    StorageLimits,
)

_OK, _DENY = apsw.SQLITE_OK, apsw.SQLITE_DENY

_CHANGES = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_DEFINITIONS = frozenset(
    {
        apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_DROP_TABLE, apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_CREATE_VIEW, apsw.SQLITE_DROP_VIEW, apsw.SQLITE_CREATE_TRIGGER, apsw.SQLITE_DROP_TRIGGER,
        apsw.SQLITE_REINDEX, apsw.SQLITE_ANALYZE,
    }
)  # fmt: skip

_HOST_TIMEOUT_S = 30.0  # seconds
_DISK_CHECK_INTERVAL_S = 0.05  # seconds between two looks at how much was written
_MAX_WRITE_BYTES_PER_S = 2 << 30  # bytes that a statement writes in a second of a processor's time, at most
_MEMORY_SETTLE_DELAYS_S = (0.01,) * 20  # seconds until memory counts as one's own; a function's own is gone by then
_MAX_AUTHORIZER_CALLS = 50_000  # while one statement is compiled; views of views of views can ask without end


class SqlAuthorizer:
    """Answers for one connection, which is used by one thread at a time.

    What it saw while a statement was compiled can be read off afterwards.
    """

    def __init__(self, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._written_before: int | None = None
        self._memory_before = 0
        self._worked_before = 0.0
        self._hoards = self._examining = False
        self._looked = 0.0
        self.trusted = True  # statements of our own are running
        self._reset()

    def install(self, connection: apsw.Connection) -> None:
        """Answer SQLite's questions about this connection from now on."""
        connection.authorizer = self.authorize
        self._look_every = partial(connection.set_progress_handler, self.progress)
        self._look_every(CHECK_INTERVAL_INSTRUCTIONS)

    def running_plugin_sql(
        self, *, may_write: bool, deadline: float, examining: bool = False, altering: bool = False, hoards: bool = False
    ) -> Self:
        """Within `with guard.plugin_runs(…):`, a statement is the plugin's.

        What was seen can be read afterwards, until the next one.

        Args:
            may_write: Whether it may change tables.
            deadline: When it is ended.
            examining: It is compiled for the first time, and not run.
            altering: It was found to alter a table.
            hoards: It was found to be one that may hold more than its values.
        """
        self._reset()
        self._examining = examining
        self.may_write = may_write
        self.altering = altering
        self.deadline = deadline
        self._memory_before = apsw.memory_used()
        self._looked = self._monotonic()
        self._written_before = None
        self._hoards = hoards
        return self

    # By hand: a generator would take longer than what it guards.
    def __enter__(self) -> None:
        self.trusted = False
        if self._hoards:
            self._worked_before = time.thread_time()
            self._look_every(AGGREGATE_CHECK_INTERVAL_INSTRUCTIONS)

    def __exit__(self, *_raised: object) -> None:
        self.trusted = True
        if self._hoards:
            self._look_every(CHECK_INTERVAL_INSTRUCTIONS)

    def allow_host_sql(self) -> None:
        """A statement of our own comes next; it has some time of its own, and nothing of it was seen yet."""
        self._reset()
        self.deadline = self._monotonic()

    def _reset(self) -> None:
        self.may_write = self.altering = False
        self.deadline = 0.0
        self.writes = self.defines = False
        self.searches = self.squares = 0
        self.writes_json = self.collects = False
        self.refused = ""  # what was refused, in words
        self.stopped = ""  # why a statement that went on too long was ended
        self._questions = 0

    # --- asked by SQLite --------------------------------------------------------------------------------------------

    def authorize(self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
        """Whether a statement may do one thing."""
        del by
        if self.trusted:
            return _OK
        self._questions += 1
        if self._too_many_questions():
            return _DENY
        if self._allowed(action, first or "", second or "", schema):
            return _OK
        kind = apsw.mapping_authorizer_function.get(action, action)
        words = str(kind).removeprefix("SQLITE_").replace("_", " ").lower()
        named = second if action == apsw.SQLITE_FUNCTION else first
        self.refused = self.refused or (f"{words} {named}" if named else words)
        return _DENY

    def progress(self) -> bool:
        """Whether to end the running statement."""
        now = self._monotonic()
        if self.trusted:
            # Committing can still be work that the plugin left: its full-text tables write their index then.
            return now >= self.deadline + _HOST_TIMEOUT_S
        if now >= self.deadline:
            self.stopped = f"it ran for more than {self._limits.statement_seconds:g} s"
        elif self._hoards and self._memory_grew() and self._exceeds_memory():
            self.stopped = f"it needs more than {self._limits.statement_memory >> 20} MiB of memory"
        elif now - self._looked > _DISK_CHECK_INTERVAL_S:
            self._check_disk_writes(now)
        return bool(self.stopped)

    def _exceeds_memory(self) -> bool:
        """Whether a statement that may hold more than its values holds too much.

        Collected JSON is not held to the length of a value before it is done. SQLite counts memory for all connections
        together, so a neighbour's must be told apart: a statement cannot have written more than it had time for, and
        what neighbours need passes while this one stands still.
        """
        if (time.thread_time() - self._worked_before) * _MAX_WRITE_BYTES_PER_S < self._limits.statement_memory:
            return False
        for pause in _MEMORY_SETTLE_DELAYS_S:
            time.sleep(pause)
            if not self._memory_grew():
                return False
        return True

    def _memory_grew(self) -> bool:
        return apsw.memory_used() - self._memory_before > self._limits.statement_memory

    def _check_disk_writes(self, now: float) -> None:
        # What sorting, grouping and recursion do not hold in memory, SQLite writes to temporary files without a limit.
        written = thread_write_bytes()
        if self._written_before is None:
            self._written_before = written
        elif written - self._written_before > self._limits.statement_bytes:
            self.stopped = f"it writes more than {self._limits.statement_bytes >> 20} MiB to the disk"
        self._looked = now

    # --- the rules --------------------------------------------------------------------------------------------------

    def _allowed(self, action: int, first: str, second: str, schema: str | None) -> bool:
        if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return True
        if NOTES in (first.lower(), second.lower()):
            return False  # the host's own, whatever is to be done with it
        if action == apsw.SQLITE_READ:
            return self._readable(first.lower(), schema)
        if action == apsw.SQLITE_FUNCTION:
            return self._callable(second.lower())
        if action == apsw.SQLITE_PRAGMA:
            # Full-text tables ask for the one, ALTER TABLE for the other. What a statement asks first is what it is.
            its_own = self._examining and self._questions == 1
            return (first == "data_version" and not its_own) or (self.altering and first == "quick_check")
        self.writes = True
        if not self.may_write:
            return False
        if action in _CHANGES:
            return schema == "main" or (self.altering and first == "sqlite_temp_master")
        self.defines = True
        if action == apsw.SQLITE_ALTER_TABLE:
            self.altering = first == "main"
            return self.altering
        if action in (apsw.SQLITE_CREATE_VTABLE, apsw.SQLITE_DROP_VTABLE):
            return schema == "main" and second.lower() in ALLOWED_MODULES
        return action in _DEFINITIONS and schema == "main"

    def _readable(self, table: str, schema: str | None) -> bool:
        if schema == "temp":
            return self.altering and table == "sqlite_temp_master"
        if table.startswith("pragma_"):
            return self.altering and table == "pragma_quick_check"
        if table.startswith("sqlite_"):
            return table in READABLE_INTERNAL_TABLES
        return schema in (None, "main") and table not in FORBIDDEN_TABLES

    def _callable(self, function: str) -> bool:
        self.searches += function in PATTERN_FUNCTIONS
        self.squares += function in QUADRATIC_FUNCTIONS
        self.writes_json |= function in JSON_BUILDERS
        self.collects |= function in JSON_AGGREGATES
        return function in ALLOWED_FUNCTIONS or (self.altering and function in ALTER_TABLE_FUNCTIONS)

    def _too_many_questions(self) -> bool:
        if self._questions > _MAX_AUTHORIZER_CALLS or self._monotonic() >= self.deadline:
            self.stopped = "it takes too long to be understood"
        return bool(self.stopped)


def thread_write_bytes() -> int:
    """How many bytes this thread has handed to the kernel to write; 0 where the kernel does not count."""
    try:
        with open("/proc/thread-self/io", "rb") as counters:  # noqa: PTH123  # no path to build, many times a second
            words = counters.read().split()
    except OSError:
        return 0
    return int(words[words.index(b"wchar:") + 1])

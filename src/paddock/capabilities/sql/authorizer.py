"""The SQLite authorizer and progress handler that bound what a plugin's SQL may do.

SQLite calls the authorizer while compiling a statement, for every table it reads or writes, every function, and every
schema change, also for what views, triggers and full-text tables do on the plugin's behalf. Everything that is not on
an allowlist here is denied, so that features of a newer SQLite stay closed.
"""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Self

import apsw

from paddock.capabilities.sql.effect_records import EFFECTS_TABLE
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

_HOST_TIMEOUT_S = 30.0
_DISK_CHECK_INTERVAL_S = 0.05  # between two checks of the bytes written
_MAX_WRITE_BYTES_PER_S = 2 << 30  # most that a statement writes to memory per second of CPU time
_MEMORY_SETTLE_DELAYS_S = (0.01,) * 20  # then memory counts as the statement's; other functions' is freed by then
_MAX_AUTHORIZER_CALLS = 50_000  # while compiling one statement; nested views can multiply them without end


class SqlAuthorizer:
    """The authorizer and progress handler of one connection, which one thread uses at a time.

    What it observed while compiling a statement can be read afterwards.
    """

    def __init__(self, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._written_before: int | None = None
        self._memory_before = 0
        self._cpu_before = 0.0
        self._accumulates = self._compiling = False
        self._last_disk_check = 0.0
        self.trusted = True  # the host's own statements are running
        self._reset()

    def install(self, connection: apsw.Connection) -> None:
        """Install the handlers on this connection."""
        connection.authorizer = self.authorize
        self._set_check_interval = partial(connection.set_progress_handler, self.progress)
        self._set_check_interval(CHECK_INTERVAL_INSTRUCTIONS)

    def running_plugin_sql(
        self,
        *,
        may_write: bool,
        deadline: float,
        compiling: bool = False,
        altering: bool = False,
        accumulates: bool = False,
    ) -> Self:
        """Guard a plugin's statement: `with authorizer.running_plugin_sql(…):`.

        What was observed can be read afterwards, until the next statement.

        Args:
            may_write: Whether it may change tables.
            deadline: When it is interrupted.
            compiling: It is compiled for the first time, and not run.
            altering: It is known to alter a table.
            accumulates: It may hold more than its values in memory.
        """
        self._reset()
        self._compiling = compiling
        self.may_write = may_write
        self.altering = altering
        self.deadline = deadline
        self._memory_before = apsw.memory_used()
        self._last_disk_check = self._monotonic()
        self._written_before = None
        self._accumulates = accumulates
        return self

    # No generator context manager: that would take longer than the guarded statement.
    def __enter__(self) -> None:
        self.trusted = False
        if self._accumulates:
            self._cpu_before = time.thread_time()
            self._set_check_interval(AGGREGATE_CHECK_INTERVAL_INSTRUCTIONS)

    def __exit__(self, *_raised: object) -> None:
        self.trusted = True
        if self._accumulates:
            self._set_check_interval(CHECK_INTERVAL_INSTRUCTIONS)

    def allow_host_sql(self) -> None:
        """Prepare for a statement of the host's own: reset what was observed, and restart the time limit."""
        self._reset()
        self.deadline = self._monotonic()

    def _reset(self) -> None:
        self.may_write = self.altering = False
        self.deadline = 0.0
        self.writes = self.defines = False
        self.pattern_calls = self.quadratic_calls = 0
        self.writes_json = self.aggregates_json = False
        self.denied_action = ""  # description of the first denied action
        self.interrupt_reason = ""  # why the statement was interrupted
        self._calls = 0

    # --- called by SQLite -------------------------------------------------------------------------------------------

    def authorize(self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
        """Return whether a statement may perform one action."""
        del by
        if self.trusted:
            return _OK
        self._calls += 1
        if self._too_many_calls():
            return _DENY
        if self._allowed(action, first or "", second or "", schema):
            return _OK
        action_name = apsw.mapping_authorizer_function.get(action, action)
        action_text = str(action_name).removeprefix("SQLITE_").replace("_", " ").lower()
        object_name = second if action == apsw.SQLITE_FUNCTION else first
        self.denied_action = self.denied_action or (f"{action_text} {object_name}" if object_name else action_text)
        return _DENY

    def progress(self) -> bool:
        """Return whether to interrupt the running statement."""
        now = self._monotonic()
        if self.trusted:
            # A commit can include the plugin's work: its full-text tables write their index then.
            return now >= self.deadline + _HOST_TIMEOUT_S
        if now >= self.deadline:
            self.interrupt_reason = f"it ran for more than {self._limits.statement_seconds:g} s"
        elif self._accumulates and self._memory_grew() and self._exceeds_memory():
            self.interrupt_reason = f"it needs more than {self._limits.statement_memory >> 20} MiB of memory"
        elif now - self._last_disk_check > _DISK_CHECK_INTERVAL_S:
            self._check_disk_writes(now)
        return bool(self.interrupt_reason)

    def _exceeds_memory(self) -> bool:
        """Whether a statement that accumulates values holds too much memory.

        Aggregated JSON is only held to the length limit of a value once it is complete. SQLite counts memory for all
        connections together, so other connections' memory must be told apart: a statement cannot have written more than
        its CPU time allows, and what others need is freed while this one pauses.
        """
        if (time.thread_time() - self._cpu_before) * _MAX_WRITE_BYTES_PER_S < self._limits.statement_memory:
            return False
        for pause in _MEMORY_SETTLE_DELAYS_S:
            time.sleep(pause)
            if not self._memory_grew():
                return False
        return True

    def _memory_grew(self) -> bool:
        return apsw.memory_used() - self._memory_before > self._limits.statement_memory

    def _check_disk_writes(self, now: float) -> None:
        # Sorting, grouping and recursion spill into temporary files, which SQLite does not limit.
        written = thread_write_bytes()
        if self._written_before is None:
            self._written_before = written
        elif written - self._written_before > self._limits.statement_bytes:
            self.interrupt_reason = f"it writes more than {self._limits.statement_bytes >> 20} MiB to the disk"
        self._last_disk_check = now

    # --- the rules --------------------------------------------------------------------------------------------------

    def _allowed(self, action: int, first: str, second: str, schema: str | None) -> bool:
        if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return True
        if EFFECTS_TABLE in (first.lower(), second.lower()):
            return False  # reserved for the host, whatever the action
        if action == apsw.SQLITE_READ:
            return self._readable(first.lower(), schema)
        if action == apsw.SQLITE_FUNCTION:
            return self._callable(second.lower())
        if action == apsw.SQLITE_PRAGMA:
            # Full-text tables use data_version, ALTER TABLE quick_check. The first call is about the statement itself.
            is_statement = self._compiling and self._calls == 1
            return (first == "data_version" and not is_statement) or (self.altering and first == "quick_check")
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
        self.pattern_calls += function in PATTERN_FUNCTIONS
        self.quadratic_calls += function in QUADRATIC_FUNCTIONS
        self.writes_json |= function in JSON_BUILDERS
        self.aggregates_json |= function in JSON_AGGREGATES
        return function in ALLOWED_FUNCTIONS or (self.altering and function in ALTER_TABLE_FUNCTIONS)

    def _too_many_calls(self) -> bool:
        if self._calls > _MAX_AUTHORIZER_CALLS or self._monotonic() >= self.deadline:
            self.interrupt_reason = "it takes too long to be understood"
        return bool(self.interrupt_reason)


def thread_write_bytes() -> int:
    """Return how many bytes this thread has written; 0 where the kernel does not count them."""
    try:
        with open("/proc/thread-self/io", "rb") as counters:  # noqa: PTH123  # no path to build, many times a second
            fields = counters.read().split()
    except OSError:
        return 0
    return int(fields[fields.index(b"wchar:") + 1])

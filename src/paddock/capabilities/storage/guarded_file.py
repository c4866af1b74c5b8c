"""One plugin's file of tables: opened with every safety that SQLite has, and used by one thread at a time."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import apsw
import orjson

from paddock.capabilities.storage import notes
from paddock.capabilities.storage.examined import Examined, examine
from paddock.capabilities.storage.failures import failure, file_failure, no_access, refused
from paddock.capabilities.storage.functions import bound_functions
from paddock.capabilities.storage.guard import Guard
from paddock.capabilities.storage.limits import FIXED, LARGEST_VALUE, StorageLimits
from paddock.capabilities.storage.notes import Doing, Done
from paddock.capabilities.storage.values import Bindable, Bindings, as_objects, estimated_size, too_large
from paddock.core.errors import StoreUnavailable
from paddock.core.ids import CallId

_PAGE = 4096
_BUSY_MS = 2_000
_REMEMBERED = 256  # statements whose examination is kept
_LONGEST_REMEMBERED = 4_096
# Full-text tables keep their index in tables beside them, which are nobody's business.
_TABLES = (
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual', 'view')"
    " AND substr(name, 1, 7) <> 'sqlite_' AND name <> ? ORDER BY name"
)
_HAS = "SELECT 1 FROM main.sqlite_schema WHERE name = ? COLLATE NOCASE"
_SETTINGS = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE: 0,
    apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_DQS_DML: 0,
    apsw.SQLITE_DBCONFIG_DQS_DDL: 0,
}


class Answer(NamedTuple):
    """What one statement did and found."""

    rows_affected: int
    columns: list[str]
    rows: list[Any]


class GuardedFile:
    """An open file. Every method blocks, and raises errors of our own tree only."""

    def __init__(self, path: Path, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self.path = path
        self._limits = limits
        self._monotonic = monotonic
        self._guard = Guard(limits, monotonic)
        self._examined: OrderedDict[str, Examined] = OrderedDict()
        self._changes_before = 0  # of the transaction that is open
        create(path)
        self._connection = self._opened()
        self._has_notes = self._has(notes.TABLE)

    def close(self) -> None:
        """Let go of the file; an open transaction is rolled back."""
        with suppress(apsw.Error):
            self._connection.close()

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def run(self, sql: str, bound: Bindings, *, may_write: bool, seconds: float, doing: Doing | None = None) -> Answer:
        """Run one statement of the plugin's: wholly, or not at all.

        Outside of a transaction, what it changes is noted together with the change where `doing` says for which call.

        Raises:
            Denied: it is not the plugin's to run.
            CallerError: it is wrong, or wants too much.
            Conflict: a constraint forbids it, or its call may not change anything any more.
            StoreUnavailable, HostError: the file or the disk; nothing was changed.
        """
        deadline = self._monotonic() + seconds
        within = self.in_transaction
        self._guard.host_runs()  # what was seen of the statement before is not this one's, nor is its time
        try:
            known = self._known(sql, bound, may_write, deadline)
            if not known.writes:
                return Answer(0, known.columns, self._fetched(known, bound, may_write, deadline))
            if not may_write:
                raise refused(sql, "a query only reads; change tables with exec")  # noqa: TRY301
            return self._changed(known, bound, deadline, doing)
        except Exception as error:
            # The one boundary to SQLite: whatever comes out of it is told in our own words.
            raise failure(error, sql, self._guard, self.path) from error
        finally:
            # SQLite ends a transaction by itself when a statement in it fails badly, and the schema is what it was.
            if within and not self.in_transaction:
                self._examined.clear()

    def tables(self) -> list[str]:
        """The names of the plugin's tables and views."""
        return [row[0] for row in self._host(_TABLES, (notes.TABLE,))]

    def begin(self) -> None:
        """Begin a transaction, which the following statements belong to."""
        self._host("BEGIN IMMEDIATE")
        self._changes_before = self._connection.total_changes()

    def commit(self, doing: Doing | None = None) -> None:
        """Make the transaction's changes durable. When that fails, nothing of it was kept.

        What it changes is noted together with the change where `doing` says for which call.

        Raises:
            Conflict: that call may not change anything any more.
            StoreUnavailable, HostError: the file or the disk.
        """
        try:
            if doing is not None and self._connection.total_changes() != self._changes_before:
                self._note(doing)
            self._host("COMMIT")
        except BaseException:
            self.rollback()
            raise
        self._has_notes |= doing is not None and doing.noted

    def rollback(self) -> None:
        """Take back the transaction's changes, where there are any left."""
        self._examined.clear()
        if self.in_transaction:
            self._host("ROLLBACK")

    def end_call(self, call: CallId, fence: int, *, started_at: str, now: str) -> Done | None:
        """What a call has noted; see `notes.end`.

        Raises:
            StoreUnavailable, HostError: it cannot be known now.
        """
        self._host("BEGIN IMMEDIATE")
        try:
            self._place_for_notes()
            done = notes.end(self._host, call, fence, started_at=started_at, now=now)
            self._host("COMMIT")
        except BaseException:
            self.rollback()
            raise
        self._has_notes = True
        return done

    def _note(self, doing: Doing) -> None:
        self._place_for_notes()
        notes.note(self._host, doing)

    def _place_for_notes(self) -> None:
        if not self._has_notes:
            notes.create(self._host)

    def _has(self, name: str) -> bool:
        return bool(self._host(_HAS, (name,)))

    # --- running ----------------------------------------------------------------------------------------------------

    def _known(self, sql: str, bound: Bindings, may_write: bool, deadline: float) -> Examined:
        known = self._examined.get(sql)
        if known is not None:
            self._examined.move_to_end(sql)
            return known
        with self._guard.plugin_runs(may_write=may_write, deadline=deadline, examining=True):
            known = examine(self._connection, self._guard, sql, bound)
        if len(sql) <= _LONGEST_REMEMBERED:
            self._examined[sql] = known
            if len(self._examined) > _REMEMBERED:
                self._examined.popitem(last=False)
        return known

    def _changed(self, known: Examined, bound: Bindings, deadline: float, doing: Doing | None) -> Answer:
        connection = self._connection
        nested = connection.in_transaction
        connection.execute("SAVEPOINT a_call" if nested else "BEGIN IMMEDIATE")
        try:
            before = connection.total_changes()
            rows = self._fetched(known, bound, True, deadline)
            # changes() keeps the number of the last statement that changed anything, so ask whether this one did.
            changed = connection.total_changes() != before
            affected = connection.changes() if changed and not known.defines else 0
            if known.altering and not self._has_notes and self._has(notes.TABLE):
                raise refused(known.statement, f"the name {notes.TABLE}")  # noqa: TRY301
            if doing is not None and changed and not nested:
                self._note(doing)
            connection.execute("RELEASE a_call" if nested else "COMMIT")
        except BaseException:
            self._undo(nested)
            raise
        finally:
            if known.defines:
                self._examined.clear()
        self._has_notes |= doing is not None and doing.noted
        return Answer(affected, known.columns, rows)

    def _undo(self, nested: bool) -> None:
        # After the worst errors SQLite has rolled back everything by itself.
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK TO a_call; RELEASE a_call" if nested else "ROLLBACK")

    def _fetched(self, known: Examined, bound: Bindings, may_write: bool, deadline: float) -> list[Any]:
        connection, most = self._connection, self._limits.result_bytes
        rows: list[tuple[Bindable, ...]] = []
        size = 0
        with self._guard.plugin_runs(
            may_write=may_write, altering=known.altering, hoards=known.hoards, deadline=deadline
        ):
            self._limit_values(known.largest_value)
            try:
                for row in connection.execute(known.statement, bound):
                    size += estimated_size(row) + known.size_of_names
                    if size > most:
                        raise too_large(most)
                    rows.append(row)
            finally:
                self._limit_values(LARGEST_VALUE)
        objects = as_objects(known.columns, rows)
        # A character can become six bytes of JSON, so a small answer need not be measured.
        if size * 6 > most and len(orjson.dumps(objects)) > most:
            raise too_large(most)
        return objects

    def _limit_values(self, largest: int) -> None:
        if largest != self._largest_value:
            self._largest_value = largest
            self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, largest)

    # --- our own statements -----------------------------------------------------------------------------------------

    def _host(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        self._guard.host_runs()
        try:
            rows = cast("list[Any]", self._connection.execute(sql, values).fetchall())
        except apsw.ConstraintError as error:
            raise failure(error, sql, self._guard, self.path) from error
        except apsw.Error as error:
            raise file_failure(error, self.path) from error
        return rows

    def _opened(self) -> apsw.Connection:
        connection = None
        try:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
            connection.set_busy_timeout(_BUSY_MS)
            for setting, value in _SETTINGS.items():
                connection.config(setting, value)
            for limit, value in FIXED.items():
                connection.limit(limit, value)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
            self._largest_value = LARGEST_VALUE
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "FULL")
            connection.pragma("foreign_keys", True)
            connection.pragma("cell_size_check", True)
            connection.pragma("temp_store", 1)  # in files, where what is written can be counted
            connection.pragma("journal_size_limit", 4 << 20)
            connection.pragma("max_page_count", self._limits.file_bytes // _PAGE)
            bound_functions(connection)
            self._guard.watch(connection)
        except apsw.Error as error:
            if connection is not None:
                connection.close()
            raise file_failure(error, self.path) from error
        return connection


def create(path: Path) -> None:
    """Make the file where it is missing, and its folders, for nobody else to read.

    It is not opened: whoever closes it takes away the locks of all connections that this process has to it.

    Raises:
        StoreUnavailable: it cannot be made, or something else stands in its place.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mknod(path, stat.S_IFREG | 0o600)
        plain = stat.S_ISREG(path.lstat().st_mode)
    except OSError as error:
        raise no_access(error) from error
    if not plain:
        raise StoreUnavailable("something else stands in the place of the plugin's storage", code="storage.unavailable")

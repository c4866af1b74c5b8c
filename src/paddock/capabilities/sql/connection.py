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

from paddock.capabilities.sql import effect_records
from paddock.capabilities.sql.authorizer import SqlAuthorizer
from paddock.capabilities.sql.effect_records import EffectWrite, RecordedEffect
from paddock.capabilities.sql.errors import denied_statement_error, file_access_error, file_error, statement_error
from paddock.capabilities.sql.functions import install_bounded_functions
from paddock.capabilities.sql.limits import MAX_VALUE_BYTES, SQLITE_LIMITS, StorageLimits
from paddock.capabilities.sql.statement import CompiledStatement, compile_statement
from paddock.capabilities.sql.values import Bindable, Bindings, as_objects, estimated_size, result_too_large_error
from paddock.core.errors import StoreUnavailable
from paddock.core.ids import CallId

_PAGE_BYTES = 4096
_BUSY_MS = 2_000
_MAX_CACHED_STATEMENTS = 256  # statements whose examination is kept
_MAX_CACHED_SQL_CHARS = 4_096
# Full-text tables keep their index in tables beside them, which are nobody's business.
_LIST_TABLES = (
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual', 'view')"
    " AND substr(name, 1, 7) <> 'sqlite_' AND name <> ? ORDER BY name"
)
_OBJECT_EXISTS = "SELECT 1 FROM main.sqlite_schema WHERE name = ? COLLATE NOCASE"
_DB_CONFIG = {
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


class StatementResult(NamedTuple):
    """What one statement did and found."""

    rows_affected: int
    columns: list[str]
    rows: list[Any]


class GuardedConnection:
    """An open file. Every method blocks, and raises errors of our own tree only."""

    def __init__(self, path: Path, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self.path = path
        self._limits = limits
        self._monotonic = monotonic
        self._authorizer = SqlAuthorizer(limits, monotonic)
        self._statements: OrderedDict[str, CompiledStatement] = OrderedDict()
        self._changes_before = 0  # of the transaction that is open
        create_file(path)
        self._connection = self._open_connection()
        self._has_effect_table = self._object_exists(effect_records.EFFECTS_TABLE)

    def close(self) -> None:
        """Let go of the file; an open transaction is rolled back."""
        with suppress(apsw.Error):
            self._connection.close()

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def run(
        self, sql: str, bound: Bindings, *, may_write: bool, seconds: float, doing: EffectWrite | None = None
    ) -> StatementResult:
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
        self._authorizer.allow_host_sql()  # what was seen of the statement before is not this one's, nor is its time
        try:
            known = self._compile(sql, bound, may_write, deadline)
            if not known.writes:
                return StatementResult(0, known.columns, self._fetch_rows(known, bound, may_write, deadline))
            if not may_write:
                raise denied_statement_error(sql, "a query only reads; change tables with exec")  # noqa: TRY301
            return self._run_write(known, bound, deadline, doing)
        except Exception as error:
            # The one boundary to SQLite: whatever comes out of it is told in our own words.
            raise statement_error(error, sql, self._authorizer, self.path) from error
        finally:
            # SQLite ends a transaction by itself when a statement in it fails badly, and the schema is what it was.
            if within and not self.in_transaction:
                self._statements.clear()

    def tables(self) -> list[str]:
        """The names of the plugin's tables and views."""
        return [row[0] for row in self._run_own(_LIST_TABLES, (effect_records.EFFECTS_TABLE,))]

    def begin(self) -> None:
        """Begin a transaction, which the following statements belong to."""
        self._run_own("BEGIN IMMEDIATE")
        self._changes_before = self._connection.total_changes()

    def commit(self, doing: EffectWrite | None = None) -> None:
        """Make the transaction's changes durable. When that fails, nothing of it was kept.

        What it changes is noted together with the change where `doing` says for which call.

        Raises:
            Conflict: that call may not change anything any more.
            StoreUnavailable, HostError: the file or the disk.
        """
        try:
            if doing is not None and self._connection.total_changes() != self._changes_before:
                self._record_effect(doing)
            self._run_own("COMMIT")
        except BaseException:
            self.rollback()
            raise
        self._has_effect_table |= doing is not None and doing.noted

    def rollback(self) -> None:
        """Take back the transaction's changes, where there are any left."""
        self._statements.clear()
        if self.in_transaction:
            self._run_own("ROLLBACK")

    def end_call(self, call: CallId, fence: int, *, started_at: str, now: str) -> RecordedEffect | None:
        """What a call has noted; see `notes.end`.

        Raises:
            StoreUnavailable, HostError: it cannot be known now.
        """
        self._run_own("BEGIN IMMEDIATE")
        try:
            self._create_effect_table()
            done = effect_records.close_call(self._run_own, call, fence, started_at=started_at, now=now)
            self._run_own("COMMIT")
        except BaseException:
            self.rollback()
            raise
        self._has_effect_table = True
        return done

    def _record_effect(self, doing: EffectWrite) -> None:
        self._create_effect_table()
        effect_records.record_effect(self._run_own, doing)

    def _create_effect_table(self) -> None:
        if not self._has_effect_table:
            effect_records.create_effects_table(self._run_own)

    def _object_exists(self, name: str) -> bool:
        return bool(self._run_own(_OBJECT_EXISTS, (name,)))

    # --- running ----------------------------------------------------------------------------------------------------

    def _compile(self, sql: str, bound: Bindings, may_write: bool, deadline: float) -> CompiledStatement:
        known = self._statements.get(sql)
        if known is not None:
            self._statements.move_to_end(sql)
            return known
        with self._authorizer.running_plugin_sql(may_write=may_write, deadline=deadline, examining=True):
            known = compile_statement(self._connection, self._authorizer, sql, bound)
        if len(sql) <= _MAX_CACHED_SQL_CHARS:
            self._statements[sql] = known
            if len(self._statements) > _MAX_CACHED_STATEMENTS:
                self._statements.popitem(last=False)
        return known

    def _run_write(
        self, known: CompiledStatement, bound: Bindings, deadline: float, doing: EffectWrite | None
    ) -> StatementResult:
        connection = self._connection
        nested = connection.in_transaction
        connection.execute("SAVEPOINT a_call" if nested else "BEGIN IMMEDIATE")
        try:
            before = connection.total_changes()
            rows = self._fetch_rows(known, bound, True, deadline)
            # changes() keeps the number of the last statement that changed anything, so ask whether this one did.
            changed = connection.total_changes() != before
            affected = connection.changes() if changed and not known.defines else 0
            if known.altering and not self._has_effect_table and self._object_exists(effect_records.EFFECTS_TABLE):
                raise denied_statement_error(known.statement, f"the name {effect_records.EFFECTS_TABLE}")  # noqa: TRY301
            if doing is not None and changed and not nested:
                self._record_effect(doing)
            connection.execute("RELEASE a_call" if nested else "COMMIT")
        except BaseException:
            self._undo(nested)
            raise
        finally:
            if known.defines:
                self._statements.clear()
        self._has_effect_table |= doing is not None and doing.noted
        return StatementResult(affected, known.columns, rows)

    def _undo(self, nested: bool) -> None:
        # After the worst errors SQLite has rolled back everything by itself.
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK TO a_call; RELEASE a_call" if nested else "ROLLBACK")

    def _fetch_rows(self, known: CompiledStatement, bound: Bindings, may_write: bool, deadline: float) -> list[Any]:
        connection, most = self._connection, self._limits.result_bytes
        rows: list[tuple[Bindable, ...]] = []
        size = 0
        with self._authorizer.running_plugin_sql(
            may_write=may_write, altering=known.altering, hoards=known.accumulates, deadline=deadline
        ):
            self._limit_values(known.largest_value)
            try:
                for row in connection.execute(known.statement, bound):
                    size += estimated_size(row) + known.size_of_names
                    if size > most:
                        raise result_too_large_error(most)
                    rows.append(row)
            finally:
                self._limit_values(MAX_VALUE_BYTES)
        objects = as_objects(known.columns, rows)
        # A character can become six bytes of JSON, so a small answer need not be measured.
        if size * 6 > most and len(orjson.dumps(objects)) > most:
            raise result_too_large_error(most)
        return objects

    def _limit_values(self, largest: int) -> None:
        if largest != self._largest_value:
            self._largest_value = largest
            self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, largest)

    # --- our own statements -----------------------------------------------------------------------------------------

    def _run_own(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        self._authorizer.allow_host_sql()
        try:
            rows = cast("list[Any]", self._connection.execute(sql, values).fetchall())
        except apsw.ConstraintError as error:
            raise statement_error(error, sql, self._authorizer, self.path) from error
        except apsw.Error as error:
            raise file_error(error, self.path) from error
        return rows

    def _open_connection(self) -> apsw.Connection:
        connection = None
        try:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
            connection.set_busy_timeout(_BUSY_MS)
            for setting, value in _DB_CONFIG.items():
                connection.config(setting, value)
            for limit, value in SQLITE_LIMITS.items():
                connection.limit(limit, value)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            self._largest_value = MAX_VALUE_BYTES
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "FULL")
            connection.pragma("foreign_keys", True)
            connection.pragma("cell_size_check", True)
            connection.pragma("temp_store", 1)  # in files, where what is written can be counted
            connection.pragma("journal_size_limit", 4 << 20)
            connection.pragma("max_page_count", self._limits.file_bytes // _PAGE_BYTES)
            install_bounded_functions(connection)
            self._authorizer.install(connection)
        except apsw.Error as error:
            if connection is not None:
                connection.close()
            raise file_error(error, self.path) from error
        return connection


def create_file(path: Path) -> None:
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
        raise file_access_error(error) from error
    if not plain:
        raise StoreUnavailable("something else stands in the place of the plugin's storage", code="storage.unavailable")

"""A guarded connection to one plugin's SQLite file, used by one thread at a time."""

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
_BUSY_TIMEOUT_MS = 2_000
_MAX_CACHED_STATEMENTS = 256  # compiled statements
_MAX_CACHED_SQL_CHARS = 4_096
# Excludes the shadow tables of full-text indexes.
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
    """The result of one statement."""

    rows_affected: int
    columns: list[str]
    rows: list[Any]


class GuardedConnection:
    """An open file. Every method blocks, and only raises errors of the host's own tree."""

    def __init__(self, path: Path, limits: StorageLimits, monotonic: Callable[[], float]) -> None:
        self.path = path
        self._limits = limits
        self._monotonic = monotonic
        self._authorizer = SqlAuthorizer(limits, monotonic)
        self._statements: OrderedDict[str, CompiledStatement] = OrderedDict()
        self._changes_before = 0  # total changes when the open transaction began
        create_file(path)
        self._connection = self._open_connection()
        self._has_effect_table = self._object_exists(effect_records.EFFECTS_TABLE)

    def close(self) -> None:
        """Close the file; an open transaction is rolled back."""
        with suppress(apsw.Error):
            self._connection.close()

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def run(
        self, sql: str, bindings: Bindings, *, may_write: bool, seconds: float, effect: EffectWrite | None = None
    ) -> StatementResult:
        """Run one statement of the plugin: completely, or not at all.

        Outside of a transaction, `effect` records the change for its call together with the change.

        Raises:
            Denied: the plugin may not run it.
            CallerError: it is invalid, or exceeds a limit.
            Conflict: a constraint forbids it, or its call may not change anything any more.
            StoreUnavailable, HostError: the file or the disk failed; nothing was changed.
        """
        deadline = self._monotonic() + seconds
        was_in_transaction = self.in_transaction
        self._authorizer.allow_host_sql()  # discard the previous statement's observations and time
        try:
            statement = self._compile(sql, bindings, may_write, deadline)
            if not statement.writes:
                return StatementResult(0, statement.columns, self._fetch_rows(statement, bindings, may_write, deadline))
            if not may_write:
                raise denied_statement_error(sql, "a query only reads; change tables with exec")  # noqa: TRY301
            return self._run_write(statement, bindings, deadline, effect)
        except Exception as error:
            # The one boundary to SQLite: its errors are mapped to the host's own.
            raise statement_error(error, sql, self._authorizer, self.path) from error
        finally:
            # SQLite rolls back a transaction by itself after severe errors, and with it schema changes.
            if was_in_transaction and not self.in_transaction:
                self._statements.clear()

    def tables(self) -> list[str]:
        """Return the names of the plugin's tables and views."""
        return [row[0] for row in self._run_host_sql(_LIST_TABLES, (effect_records.EFFECTS_TABLE,))]

    def begin(self) -> None:
        """Begin a transaction for the following statements."""
        self._run_host_sql("BEGIN IMMEDIATE")
        self._changes_before = self._connection.total_changes()

    def commit(self, effect: EffectWrite | None = None) -> None:
        """Make the transaction's changes durable. If that fails, all of them are rolled back.

        `effect` records the changes for its call together with the commit.

        Raises:
            Conflict: that call may not change anything any more.
            StoreUnavailable, HostError: the file or the disk failed.
        """
        try:
            if effect is not None and self._connection.total_changes() != self._changes_before:
                self._record_effect(effect)
            self._run_host_sql("COMMIT")
        except BaseException:
            self.rollback()
            raise
        self._has_effect_table |= effect is not None and effect.recorded

    def rollback(self) -> None:
        """Roll back the transaction, if one is open."""
        self._statements.clear()
        if self.in_transaction:
            self._run_host_sql("ROLLBACK")

    def end_call(self, call: CallId, fence: int, *, started_at: str, now: str) -> RecordedEffect | None:
        """Return the effect that a call has recorded; see `effect_records.close_call`.

        Raises:
            StoreUnavailable, HostError: it cannot be determined now.
        """
        self._run_host_sql("BEGIN IMMEDIATE")
        try:
            self._create_effect_table()
            recorded = effect_records.close_call(self._run_host_sql, call, fence, started_at=started_at, now=now)
            self._run_host_sql("COMMIT")
        except BaseException:
            self.rollback()
            raise
        self._has_effect_table = True
        return recorded

    def _record_effect(self, effect: EffectWrite) -> None:
        self._create_effect_table()
        effect_records.record_effect(self._run_host_sql, effect)

    def _create_effect_table(self) -> None:
        if not self._has_effect_table:
            effect_records.create_effects_table(self._run_host_sql)

    def _object_exists(self, name: str) -> bool:
        return bool(self._run_host_sql(_OBJECT_EXISTS, (name,)))

    # --- running ----------------------------------------------------------------------------------------------------

    def _compile(self, sql: str, bindings: Bindings, may_write: bool, deadline: float) -> CompiledStatement:
        statement = self._statements.get(sql)
        if statement is not None:
            self._statements.move_to_end(sql)
            return statement
        with self._authorizer.running_plugin_sql(may_write=may_write, deadline=deadline, compiling=True):
            statement = compile_statement(self._connection, self._authorizer, sql, bindings)
        if len(sql) <= _MAX_CACHED_SQL_CHARS:
            self._statements[sql] = statement
            if len(self._statements) > _MAX_CACHED_STATEMENTS:
                self._statements.popitem(last=False)
        return statement

    def _run_write(
        self, statement: CompiledStatement, bindings: Bindings, deadline: float, effect: EffectWrite | None
    ) -> StatementResult:
        connection = self._connection
        nested = connection.in_transaction
        connection.execute("SAVEPOINT a_call" if nested else "BEGIN IMMEDIATE")
        try:
            before = connection.total_changes()
            rows = self._fetch_rows(statement, bindings, True, deadline)
            # changes() is about the last statement that changed anything, so check whether this one did.
            changed = connection.total_changes() != before
            affected = connection.changes() if changed and not statement.defines else 0
            if statement.altering and not self._has_effect_table and self._object_exists(effect_records.EFFECTS_TABLE):
                raise denied_statement_error(statement.statement, f"the name {effect_records.EFFECTS_TABLE}")  # noqa: TRY301
            if effect is not None and changed and not nested:
                self._record_effect(effect)
            connection.execute("RELEASE a_call" if nested else "COMMIT")
        except BaseException:
            self._undo(nested)
            raise
        finally:
            if statement.defines:
                self._statements.clear()
        self._has_effect_table |= effect is not None and effect.recorded
        return StatementResult(affected, statement.columns, rows)

    def _undo(self, nested: bool) -> None:
        # After severe errors SQLite has rolled back everything by itself.
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK TO a_call; RELEASE a_call" if nested else "ROLLBACK")

    def _fetch_rows(
        self, statement: CompiledStatement, bindings: Bindings, may_write: bool, deadline: float
    ) -> list[Any]:
        connection, max_bytes = self._connection, self._limits.result_bytes
        rows: list[tuple[Bindable, ...]] = []
        size = 0
        with self._authorizer.running_plugin_sql(
            may_write=may_write, altering=statement.altering, accumulates=statement.accumulates, deadline=deadline
        ):
            self._set_value_limit(statement.max_value_bytes)
            try:
                for row in connection.execute(statement.statement, bindings):
                    size += estimated_size(row) + statement.names_bytes
                    if size > max_bytes:
                        raise result_too_large_error(max_bytes)
                    rows.append(row)
            finally:
                self._set_value_limit(MAX_VALUE_BYTES)
        objects = as_objects(statement.columns, rows)
        # A character becomes at most six bytes of JSON, so small results need not be measured.
        if size * 6 > max_bytes and len(orjson.dumps(objects)) > max_bytes:
            raise result_too_large_error(max_bytes)
        return objects

    def _set_value_limit(self, max_bytes: int) -> None:
        if max_bytes != self._value_limit:
            self._value_limit = max_bytes
            self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, max_bytes)

    # --- host statements --------------------------------------------------------------------------------------------

    def _run_host_sql(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
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
            connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            for setting, value in _DB_CONFIG.items():
                connection.config(setting, value)
            for limit, value in SQLITE_LIMITS.items():
                connection.limit(limit, value)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            self._value_limit = MAX_VALUE_BYTES
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "FULL")
            connection.pragma("foreign_keys", True)
            connection.pragma("cell_size_check", True)
            connection.pragma("temp_store", 1)  # in files, where writes can be counted
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
    """Create the file and its folders if missing, readable by this user only.

    It is not opened: closing any descriptor of it would drop the locks of all this process's connections to it.

    Raises:
        StoreUnavailable: it cannot be created, or something else stands in its place.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mknod(path, stat.S_IFREG | 0o600)
        is_regular = stat.S_ISREG(path.lstat().st_mode)
    except OSError as error:
        raise file_access_error(error) from error
    if not is_regular:
        raise StoreUnavailable("something else stands in the place of the plugin's storage", code="storage.unavailable")

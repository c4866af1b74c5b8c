"""The embedded engine: one SQLite file, next to the lock file of its daemon."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import apsw

from paddock.core.errors import Conflict, HostError, PaddockError, StoreUnavailable
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS
from paddock.store.lock import Role, StoreLock, try_file_lock
from paddock.store.migrate import DiskRoom, is_current, migrate
from paddock.store.sqlite_integrity import check_integrity
from paddock.store.statement import Statement, Value
from paddock.store.transaction import CheckedTransaction, Engine, Row, Transaction

T = TypeVar("T")

_BUSY_MS = 10_000


def connect(path: Path, *, read_only: bool = False, unshared: bool = False) -> apsw.Connection:
    """Open a connection with our settings: WAL, synced on every commit, foreign keys enforced, secure delete.

    Args:
        path: The file; it exists.
        read_only: Open for reading only.
        unshared: Keep the log's index in memory instead of in a file. No other process can use the store meanwhile.

    Raises:
        StoreUnavailable: When the file cannot be opened.
    """
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    connection = None
    try:
        connection = apsw.Connection(str(path), flags=flags)
        connection.set_busy_timeout(_BUSY_MS)
        if unshared:
            connection.pragma("locking_mode", "exclusive")
        if not read_only:
            _use_write_ahead_log(connection)
            connection.pragma("synchronous", "FULL")
            # Deleted data is overwritten: it would stay readable in the file until its pages are reused.
            connection.pragma("secure_delete", True)
            # Statement journals stay in memory; SQLite would write them to a file elsewhere.
            connection.pragma("temp_store", "MEMORY")
        connection.pragma("foreign_keys", True)
    except apsw.Error as error:
        failure = to_paddock_error(error, connection, path)  # asks the connection, so before it is closed
        if connection is not None:
            connection.close()
        raise failure from error
    return connection


def _connect_even_if_full(path: Path) -> apsw.Connection:
    """A connection that can at least read, also where the disk has no room for the shared index."""
    try:
        return connect(path)
    except StoreUnavailable as error:
        if error.error_code != "store.full":
            raise
        return connect(path, unshared=True)


def _use_write_ahead_log(connection: apsw.Connection) -> None:
    # When several processes open a new file at once, SQLite reports busy to all but one without waiting.
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


def create_file(path: Path) -> None:
    """Create the file, and the directory if it is missing, readable by their owner only.

    SQLite gives its log the mode of the database, so this one mode covers all. The file is never opened here: closing
    it would drop the locks of every connection that this process has, and then the next process that is done
    with the store would take itself for the last one, and remove the log that we go on to write.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mknod(path, stat.S_IFREG | 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"the store {path} cannot be opened: {error.strerror}",
            code="store.full" if error.errno in OUT_OF_SPACE_ERRNOS else None,
            hint=f"check who owns {path.parent} and its permissions",
        ) from error


def to_paddock_error(error: apsw.Error, connection: apsw.Connection | None, path: Path) -> PaddockError:
    """The error of our own tree for one of SQLite's."""
    system = connection.system_errno if connection is not None and isinstance(error, apsw.IOError) else 0
    if isinstance(error, apsw.FullError) or system in OUT_OF_SPACE_ERRNOS:
        return StoreUnavailable(
            f"there is no room left for the store {path}",
            code="store.full",
            hint=f"free some space: df -h {path.parent}",
        )
    match error:
        case apsw.ConstraintError():
            return Conflict("the rows clash with those already there", code="store.constraint")
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(
                f"another process keeps the store {path} busy", code="store.busy", hint="try again in a moment"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return HostError(
                f"the store {path} is damaged",
                code="store.corrupt",
                hint="move it aside and restore a backup",
                details={"sqlite": str(error)},
            )
        case apsw.ReadOnlyError() if os.access(path, os.W_OK):
            return HostError("a reading unit of work tried to write", code="store.read_only")
        case apsw.SQLError() | apsw.MismatchError() | apsw.BindingsError():
            return HostError(f"SQLite refused a statement: {error}", code="store.statement")
        case _:
            return StoreUnavailable(
                f"the store {path} cannot be used: {error}",
                hint=f"check the disk and the permissions of {path.parent}",
            )


class SqliteTransaction(CheckedTransaction):
    """A transaction on one connection. Its creator begins and ends it."""

    engine: Engine = "sqlite"

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        super().__init__()
        self._connection = connection
        self._path = path

    def script(self, sql: str) -> None:
        """Run statements without parameters; for migrations."""
        try:
            self._connection.execute(sql)
        except apsw.Error as error:
            raise to_paddock_error(error, self._connection, self._path) from error

    def _change(self, statement: Statement, values: tuple[Value, ...]) -> int:
        before = self._connection.total_changes()
        self._rows(statement, values)
        # changes() keeps the number of the last statement that changed anything, so check whether this one did.
        return self._connection.changes() if self._connection.total_changes() != before else 0

    def _fetch(self, statement: Statement, values: tuple[Value, ...]) -> list[Row]:
        names, rows = self._rows(statement, values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _fetch_tuples(self, statement: Statement, values: tuple[Value, ...]) -> list[tuple[Any, ...]]:
        try:
            rows = cast("list[tuple[Any, ...]]", self._connection.execute(statement.sqlite, values).fetchall())
        except apsw.Error as error:
            raise to_paddock_error(error, self._connection, self._path) from error
        return rows

    def _rows(self, statement: Statement, values: tuple[Value, ...]) -> tuple[list[str], list[tuple[Any, ...]]]:
        names: list[str] = []
        rows: list[tuple[Any, ...]] = []
        try:
            cursor = self._connection.execute(statement.sqlite, values)
            for row in cursor:
                if not rows:
                    names = [column[0] for column in cursor.get_description()]
                rows.append(row)
        except apsw.Error as error:
            raise to_paddock_error(error, self._connection, self._path) from error
        return names, rows


@contextmanager
def transaction(connection: apsw.Connection, path: Path, begin: str) -> Generator[SqliteTransaction, None, None]:
    """One transaction, committed at the end of the block and rolled back when it raises."""
    try:
        connection.execute(begin)
    except apsw.Error as error:
        raise to_paddock_error(error, connection, path) from error
    try:
        yield SqliteTransaction(connection, path)
        connection.execute("COMMIT")
    except BaseException as error:
        # Out of space or memory, SQLite may have rolled back by itself.
        if connection.in_transaction:
            with suppress(apsw.Error):  # the first error is the one to report
                connection.execute("ROLLBACK")
        if isinstance(error, apsw.Error):
            raise to_paddock_error(error, connection, path) from error
        raise


class SqliteDirect:
    """The embedded database on the calling thread: one connection, no threads, no event loop.

    Not for sharing between threads; the daemon uses `group_commit.py`.
    """

    engine: Literal["sqlite"] = "sqlite"
    type_names: Mapping[str, str] = {
        "text": "TEXT",
        "bigint": "INTEGER",
        "blob": "BLOB",
        "strict": "STRICT",
        "if_sqlite": "",
        "if_postgresql": "--",
    }

    def __init__(self, path: Path, connection: apsw.Connection, lock: StoreLock | None) -> None:
        self.path = path
        self.connection = connection
        self._lock = lock

    @classmethod
    def open(
        cls, path: Path, *, migrations: Path, role: Role, wait: float, only_connection: bool = False
    ) -> SqliteDirect:
        """Open the file and migrate it; a daemon takes the lock first and keeps it.

        If the previous daemon did not shut down cleanly, the file's integrity is checked. If the disk is full, the
        process's only connection locks all others out, and can then still read; others report the full disk.
        """
        create_file(path)
        lock = StoreLock.take(path.parent, role, wait=wait) if role == "daemon" else None
        try:
            connection = _connect_even_if_full(path) if only_connection else connect(path)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        database = cls(path, connection, lock)
        try:
            if lock is not None and lock.unclean_shutdown:
                database._check_integrity(lock)
            database._migrate(migrations, wait)
        except BaseException:
            database.close()
            raise
        return database

    def _check_integrity(self, lock: StoreLock) -> None:
        try:
            check_integrity(self.connection, self.path)
        except apsw.Error as error:
            lock.release(sound=False)
            raise to_paddock_error(error, self.connection, self.path) from error
        except HostError:
            lock.release(sound=False)
            raise

    def _migrate(self, migrations: Path, wait: float) -> None:
        deadline = time.monotonic() + wait
        while not is_current(self, migrations):
            if self._lock is not None:
                migrate(self, migrations)
                continue
            # No other process may have the tables open while the schema changes. The one that held us up may have
            # migrated.
            try:
                lock = StoreLock.take(self.path.parent, "command", wait=0)
            except StoreUnavailable as error:
                if error.error_code != "store.locked" or time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)
                continue
            try:
                migrate(self, migrations)
            finally:
                lock.release()

    def write(self, fn: Callable[[Transaction], T]) -> T:
        with self.exclusive_transaction() as tx:
            return tx.run(fn)

    def read(self, fn: Callable[[Transaction], T]) -> T:
        with self.read_transaction() as tx:
            return tx.run(fn)

    def truncate_log(self) -> Path | None:
        log = self.path.with_name(f"{self.path.name}-wal")
        try:
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except apsw.BusyError:
            return log
        except apsw.Error as error:
            raise to_paddock_error(error, self.connection, self.path) from error
        return log if busy and busy[0] else None

    def try_lock(self, work: str) -> AbstractContextManager[bool]:
        return try_file_lock(self.path.with_name(f"{self.path.stem}-{work}.lock"))

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def has_table(self, name: str) -> bool:
        with self.read_transaction() as tx:
            return tx.one("SELECT 1 AS found FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)) is not None

    def disk_room(self) -> DiskRoom | None:
        try:
            return DiskRoom(self.path.stat().st_size, shutil.disk_usage(self.path.parent).free)
        except OSError:
            return None

    @contextmanager
    def read_transaction(self) -> Generator[SqliteTransaction, None, None]:
        """A transaction that cannot write."""
        self.connection.pragma("query_only", True)
        try:
            with transaction(self.connection, self.path, "BEGIN") as tx:
                yield tx
        finally:
            self.connection.pragma("query_only", False)

    @contextmanager
    def exclusive_transaction(self) -> Generator[SqliteTransaction, None, None]:
        """A transaction that holds SQLite's write lock from the start."""
        with transaction(self.connection, self.path, "BEGIN IMMEDIATE") as tx:
            yield tx

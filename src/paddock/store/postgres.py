"""The PostgreSQL engine: the same units of work on a server that several nodes share.

A writing unit is one SERIALIZABLE transaction, so that units behave as if they ran one after another, as they do on
the embedded engine. The server may report that a unit lost a race; it is then run again, which is why a unit must do
nothing but work on rows. A reading unit sees one snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any, Literal, LiteralString, TypeVar

import psycopg
from psycopg import errors
from psycopg.rows import dict_row, tuple_row
from psycopg.types.numeric import NumericBinaryLoader

from paddock.core.errors import Conflict, HostError, PaddockError, StoreUnavailable
from paddock.store.migrate import DiskRoom, migrate
from paddock.store.statement import Statement, Value
from paddock.store.transaction import CheckedTransaction, Engine, Row, Transaction

T = TypeVar("T")

Connection = psycopg.Connection[Row]
ConnectionFactory = Callable[[], AbstractContextManager[Connection]]

# A server that cannot be reached any more is noticed before the lease of this node is over: see queue/leases.py.
CONNECTION_SETTINGS: Mapping[str, Any] = {"connect_timeout": 10, "tcp_user_timeout": 15_000}
_MAX_ATTEMPTS = 20
_MAX_RETRY_DELAY_S = 0.1
_MIGRATION_LOCK = 0x7061_6464_6F63_6B  # "paddock", the number every node locks while it migrates
_JOB_LOCK_CLASS = 0x7061_6464  # "padd", combined with a number for each kind of job that one node at a time does


def connect(url: str) -> Connection:
    """Open one connection with our settings.

    Raises:
        StoreUnavailable: When the server cannot be reached or rejects us.
    """
    try:
        connection = psycopg.Connection[Row].connect(url, row_factory=dict_row, **CONNECTION_SETTINGS)
        configure_connection(connection)
    except psycopg.Error as error:
        raise to_paddock_error(error) from error
    return connection


def configure_connection(connection: Connection) -> None:
    """Apply our settings to a fresh connection."""
    # sum() of 64-bit numbers returns numeric; SQLite's returns a plain number.
    connection.adapters.register_loader("numeric", _NumberLoader)
    connection.execute("SET lock_timeout = '10s'")
    # A process that was stopped within a unit must not hold its locks for longer than its lease: see queue/leases.py.
    connection.execute("SET idle_in_transaction_session_timeout = '15s'")
    connection.commit()


class _NumberLoader(NumericBinaryLoader):
    """Loads PostgreSQL's `numeric` as the number SQLite would have returned."""

    def load(self, data: Any) -> Any:
        number = super().load(data)
        return int(number) if number == number.to_integral_value() else float(number)


def to_paddock_error(error: psycopg.Error) -> PaddockError:
    """The error of our own tree for one of psycopg's. Never shows the URL, which may contain a password."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = (error.diag.message_primary or first_line).rstrip(".")
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # Not from the server: the driver could not parse the URL, and its message repeats it.
        return StoreUnavailable(
            "the address of the PostgreSQL server cannot be read",
            hint="write it as postgresql://user:password@host:5432/name; special characters as %40",
        )
    match error:
        case errors.IntegrityError():
            return Conflict("the rows clash with those already there", code="store.constraint")
        case errors.DiskFull():
            return StoreUnavailable(
                "PostgreSQL has no room left", code="store.full", hint="free space on the database server"
            )
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return StoreUnavailable(
                "too many writers wanted the same rows", code="store.busy", hint="try again in a moment"
            )
        case errors.LockNotAvailable():
            return StoreUnavailable(
                "another node keeps the store busy", code="store.busy", hint="try again in a moment"
            )
        case errors.ReadOnlySqlTransaction():
            return HostError("a reading unit of work tried to write", code="store.read_only")
        case psycopg.ProgrammingError() | psycopg.DataError() | psycopg.NotSupportedError():
            return HostError(f"PostgreSQL refused a statement: {text}", code="store.statement")
        case _:
            return StoreUnavailable(
                f"PostgreSQL cannot be used: {text}",
                hint="check that the server runs and that the address, user and password are right",
            )


class PostgresTransaction(CheckedTransaction):
    """A transaction on one connection. Its creator ends it."""

    engine: Engine = "postgresql"

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def script(self, sql: str) -> None:
        """Run statements without parameters; for migrations."""
        # The bytes of a file of ours, not a query built from input.
        try:
            self._connection.execute(sql.encode())
        except psycopg.Error as error:
            raise to_paddock_error(error) from error

    def _change(self, statement: Statement, values: tuple[Value, ...]) -> int:
        return max(0, self._run(statement, values).rowcount)

    def _fetch(self, statement: Statement, values: tuple[Value, ...]) -> list[Row]:
        cursor = self._run(statement, values)
        return cursor.fetchall() if cursor.description is not None else []

    def _fetch_tuples(self, statement: Statement, values: tuple[Value, ...]) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor(row_factory=tuple_row, binary=True) as cursor:
                return cursor.execute(statement.postgres.encode(), values).fetchall()
        except psycopg.Error as error:
            raise to_paddock_error(error) from error

    def _run(self, statement: Statement, values: tuple[Value, ...]) -> psycopg.Cursor[Row]:
        try:
            # Binary: a blob would otherwise travel as hexadecimal text.
            return self._connection.execute(statement.postgres.encode(), values, binary=True)
        except psycopg.Error as error:
            raise to_paddock_error(error) from error


class PostgresDirect:
    """The database on the calling thread. Safe to share between threads when its connections come from a pool."""

    engine: Literal["postgresql"] = "postgresql"
    type_names: Mapping[str, str] = {
        "text": 'TEXT COLLATE "C"',
        "bigint": "BIGINT",
        "blob": "BYTEA",
        "strict": "",
        "if_sqlite": "--",
        "if_postgresql": "",
    }

    def __init__(self, connections: ConnectionFactory, close: Callable[[], None], random: Random | None = None) -> None:
        self._connections = connections
        self._close = close
        self._random = random or Random()  # noqa: S311  # spreads retries, guards nothing

    @classmethod
    def open(cls, url: str, *, migrations: Path) -> PostgresDirect:
        """Connect once and migrate."""
        connection = connect(url)
        return cls(lambda: nullcontext(connection), connection.close).migrate_or_close(migrations)

    def migrate_or_close(self, migrations: Path) -> PostgresDirect:
        """Migrate this database and return it; closed when that fails."""
        try:
            migrate(self, migrations)
        except BaseException:
            self.close()
            raise
        return self

    def write(self, fn: Callable[[Transaction], T]) -> T:
        for attempt in range(1, _MAX_ATTEMPTS):
            try:
                with self._transaction(read_only=False) as tx:
                    return tx.run(fn)
            except StoreUnavailable as error:
                if not _is_serialization_failure(error):
                    raise
            time.sleep(self._random.uniform(0, min(_MAX_RETRY_DELAY_S, 0.002 * 2**attempt)))
        with self._transaction(read_only=False) as tx:
            return tx.run(fn)

    def read(self, fn: Callable[[Transaction], T]) -> T:
        with self.read_transaction() as tx:
            return tx.run(fn)

    def truncate_log(self) -> Path | None:
        return None  # not ours to truncate

    @contextmanager
    def try_lock(self, work: str) -> Generator[bool, None, None]:
        # A session lock, so that it outlasts the units of work that are done meanwhile.
        with self._connections() as connection:
            acquired = _query_advisory_lock(connection, "SELECT pg_try_advisory_lock(%s, hashtext(%s)) AS held", work)
            try:
                yield bool(acquired)
            finally:
                if acquired and not connection.closed:
                    _query_advisory_lock(connection, "SELECT pg_advisory_unlock(%s, hashtext(%s)) AS held", work)

    def close(self) -> None:
        self._close()

    def has_table(self, name: str) -> bool:
        with self.read_transaction() as tx:
            # Only where new tables would be created: another schema of the search path may belong to another program.
            return (
                tx.one(
                    "SELECT 1 AS found FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?", (name,)
                )
                is not None
            )

    def disk_room(self) -> DiskRoom | None:
        return None  # the server's disk is not here

    def read_transaction(self) -> AbstractContextManager[PostgresTransaction]:
        """A transaction that cannot write."""
        return self._transaction(read_only=True)

    @contextmanager
    def exclusive_transaction(self) -> Generator[PostgresTransaction, None, None]:
        """A transaction during which no other node migrates."""
        # READ COMMITTED: the snapshot must be newer than the wait for the lock.
        with self._transaction(read_only=False, isolation=psycopg.IsolationLevel.READ_COMMITTED) as tx:
            tx.script(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield tx

    @contextmanager
    def _transaction(
        self, *, read_only: bool, isolation: psycopg.IsolationLevel | None = None
    ) -> Generator[PostgresTransaction, None, None]:
        default = psycopg.IsolationLevel.REPEATABLE_READ if read_only else psycopg.IsolationLevel.SERIALIZABLE
        with self._connections() as connection:
            try:
                connection.read_only = read_only
                connection.isolation_level = isolation or default
            except psycopg.Error as error:
                connection.close()
                raise to_paddock_error(error) from error
            try:
                yield PostgresTransaction(connection)
                _commit(connection)
            except BaseException:
                _roll_back(connection)
                raise


def _query_advisory_lock(connection: Connection, query: LiteralString, work: str) -> Any:
    try:
        row = connection.execute(query, (_JOB_LOCK_CLASS, work)).fetchone()
        connection.commit()
    except psycopg.Error as error:
        raise to_paddock_error(error) from error
    return row and row["held"]


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if error.sqlstate is not None and not connection.broken:
            raise to_paddock_error(error) from error  # the server answered: nothing was kept
        raise StoreUnavailable(
            "the connection to PostgreSQL broke during a commit, so it is not known whether it was kept",
            code="store.outcome_unknown",
            hint="look before doing it again",
        ) from error
    except psycopg.Error as error:
        raise to_paddock_error(error) from error


def _roll_back(connection: Connection) -> None:
    try:
        connection.rollback()
    except psycopg.Error:
        connection.close()  # a connection in an unknown state cannot be reused


def _is_serialization_failure(error: StoreUnavailable) -> bool:
    return isinstance(error.__cause__, (errors.SerializationFailure, errors.DeadlockDetected))

"""The interface of the database: units of work, and the choice of the engine behind them.

A unit of work is a plain function of a transaction: `await database.write(lambda tx: enable(tx, "notes"))`. Packages
export functions that take `tx`, so that what belongs together commits together. Four rules hold on every engine:

* Nothing but the transaction. A unit may be run again (PostgreSQL retries one that lost a race), so it sends
  nothing, prints nothing and changes nothing but rows.
* All or nothing. A unit that raises leaves no trace, and its error reaches only its own caller.
* No going on after a failed statement. The unit fails as a whole even when it swallows the error.
* Durable before answered. `write` returns when the rows would survive a power cut.

A caller cancelled while waiting cannot know whether its unit was committed; it was so wholly or not at all.

There are two entry points. `open_database` is for a daemon: asynchronous, many callers at once. `open_direct` is for a
one-shot command: the same units on the calling thread, without the event loop, whose import would cost several times
what opening and reading the store does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from paddock.core.errors import OperatorError
from paddock.store.lock import Role
from paddock.store.migrate import MIGRATIONS_DIR
from paddock.store.transaction import Engine, Row, Transaction

if TYPE_CHECKING:
    from paddock.core.tasks import DeferredCancellation  # imports the event loop

__all__ = ["Database", "DirectDatabase", "Engine", "Role", "Row", "Transaction", "open_database", "open_direct"]

T = TypeVar("T")


class Database(Protocol):
    """A database for many concurrent callers on one event loop."""

    @property
    def engine(self) -> Engine: ...

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        """Run the unit and return its result once it is durable.

        With `deferral` a caller who is cancelled meanwhile goes on waiting and gets the outcome.

        Raises:
            Conflict: `store.constraint`, when the rows violate a constraint.
            StoreUnavailable: When the store could not take it; nothing of it was kept, unless the code is
                `store.outcome_unknown`.
        """
        ...

    async def read(self, fn: Callable[[Transaction], T]) -> T:
        """Run the unit on one snapshot that includes every write answered before."""
        ...

    async def aclose(self) -> None:
        """Finish accepted units, then close the store."""
        ...


class DirectDatabase(Protocol):
    """A database whose units of work run on the calling thread."""

    @property
    def engine(self) -> Engine: ...

    def write(self, fn: Callable[[Transaction], T]) -> T: ...

    def read(self, fn: Callable[[Transaction], T]) -> T: ...

    def truncate_log(self) -> Path | None:
        """Remove overwritten data from the write-ahead log.

        Returns:
            The file that still holds it, where other processes read it right now; None otherwise. A server's log is
            not ours to truncate.
        """
        ...

    def try_lock(self, work: str) -> AbstractContextManager[bool]:
        """Try to take the lock for a job; True if no process has it. Held until the block ends.

        It is released however the process ends.
        """
        ...

    def close(self) -> None: ...


@asynccontextmanager
async def open_database(
    where: str | Path, *, migrations: Path = MIGRATIONS_DIR, role: Role = "daemon", wait: float = 10.0
) -> AsyncGenerator[Database, None]:
    """Open the database at a path, `sqlite:///path` or `postgresql://…`, migrated, for the duration of the block.

    Args:
        where: A path or `sqlite:` URL means the embedded engine.
        migrations: The directory of migrations to bring it up to.
        role: The embedded store has at most one daemon, and any number of commands beside it. See `lock.py`.
        wait: Seconds to wait for another process that is migrating the embedded store.

    Raises:
        StoreUnavailable: `store.locked` when another process holds it, else when it cannot be reached.
        HostError: `store.newer` or `store.migration_changed` when this program must not touch it.
    """
    database: Database
    if (path := embedded_path(where)) is not None:
        from paddock.store.group_commit import open_group_commit

        database = await open_group_commit(path, migrations=migrations, role=role, wait=wait)
    else:
        from paddock.store.postgres_pool import open_pool

        database = await open_pool(str(where), migrations=migrations)
    try:
        yield database
    finally:
        await database.aclose()


@contextmanager
def open_direct(
    where: str | Path,
    *,
    migrations: Path = MIGRATIONS_DIR,
    role: Role = "command",
    wait: float = 10.0,
    only_connection: bool = True,
) -> Generator[DirectDatabase, None, None]:
    """Open the database on one connection. Arguments and errors are those of `open_database`.

    Args:
        only_connection: False if this process has others to it: then none of them may lock the others out.
    """
    database: DirectDatabase
    if (path := embedded_path(where)) is not None:
        from paddock.store.sqlite import SqliteDirect

        database = SqliteDirect.open(
            path, migrations=migrations, role=role, wait=wait, only_connection=only_connection and role == "command"
        )
    else:
        from paddock.store.postgres import PostgresDirect

        database = PostgresDirect.open(str(where), migrations=migrations)
    try:
        yield database
    finally:
        database.close()


def embedded_path(where: str | Path) -> Path | None:
    """The file of an embedded database, or None when `where` names a PostgreSQL server.

    Raises:
        OperatorError: `store.url` for a scheme we have no engine for.
    """
    if isinstance(where, Path):
        return where
    scheme, separator, rest = where.partition("://")
    if not separator:
        return Path(where)
    match scheme:
        case "sqlite":
            # The third slash already belongs to the path: such a URL is always absolute.
            if rest.startswith("/") and len(rest) > 1:
                return Path(rest)
        case "postgresql" | "postgres":
            return None
        case _:
            pass
    # The URL itself is not shown: it may contain a password.
    raise OperatorError(
        f"there is no database engine for this {scheme[:20]!r} address",
        code="store.url",
        hint="use a path, sqlite:///absolute/path.db or postgresql://user@host/name",
    )

"""PostgreSQL for many callers: a pool of connections, each used by one worker thread at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from paddock.core.errors import StoreUnavailable
from paddock.core.tasks import DeferredCancellation, take_slot
from paddock.store.open_in_thread import open_in_thread
from paddock.store.postgres import CONNECTION_SETTINGS, Connection, PostgresDirect, configure_connection, connect
from paddock.store.transaction import Row, Transaction

T = TypeVar("T")

_MAX_CONNECTIONS = 8
_MAX_PENDING_UNITS = 1024  # units accepted and not answered; the next caller waits


async def open_pool(url: str, *, migrations: Path) -> PostgresPool:
    """Open the database without blocking the event loop while the server answers."""
    return PostgresPool(await open_in_thread(lambda: _open_pool(url, migrations)), url)


def _open_pool(url: str, migrations: Path) -> PostgresDirect:
    # Connect once without the pool: a wrong URL must say so, where a pool would only report a timeout.
    connect(url).close()
    pool = ConnectionPool(
        url,
        connection_class=psycopg.Connection[Row],
        kwargs={"row_factory": dict_row, **CONNECTION_SETTINGS},
        configure=configure_connection,
        check=_check_connection,
        min_size=1,
        max_size=_MAX_CONNECTIONS,
        timeout=10.0,
        name="paddock-store",
        open=True,
    )

    @contextmanager
    def pooled() -> Generator[Connection, None, None]:
        try:
            connection = pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise StoreUnavailable(
                "PostgreSQL gave no connection within 10 seconds", hint="check that the server runs and has room"
            ) from error
        try:
            yield connection
        finally:
            pool.putconn(connection)

    return PostgresDirect(pooled, pool.close).migrate_or_close(migrations)


def _check_connection(connection: Connection) -> None:
    """Raise for a connection that the server has dropped; the pool then makes another."""
    connection.execute("SELECT 1")
    connection.rollback()


class PostgresPool:
    """A `Database` over a PostgreSQL server. Owns the pool it was given, and closes it.

    `direct` is the same database for code that already runs on a thread of its own; `url` its address, for the job
    engine, which has connections of its own.
    """

    engine: Literal["postgresql"] = "postgresql"

    def __init__(self, direct: PostgresDirect, url: str) -> None:
        self.direct = direct
        self.url = url
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(_MAX_PENDING_UNITS)
        self._workers = ThreadPoolExecutor(_MAX_CONNECTIONS, thread_name_prefix="paddock-store")
        self._closing: asyncio.Future[None] | None = None

    async def write(self, fn: Callable[[Transaction], T], deferral: DeferredCancellation | None = None) -> T:
        return await self._run_in_thread(self.direct.write, fn, deferral)

    async def read(self, fn: Callable[[Transaction], T]) -> T:
        return await self._run_in_thread(self.direct.read, fn)

    async def _run_in_thread(
        self,
        run: Callable[[Callable[[Transaction], T]], T],
        fn: Callable[[Transaction], T],
        deferral: DeferredCancellation | None = None,
    ) -> T:
        await take_slot(self._slots, deferral)
        try:
            if self._closing is not None:
                raise StoreUnavailable("the store is closed", code="store.closed")
            answer = self._loop.run_in_executor(self._workers, run, fn)
            while deferral is not None and not answer.done():
                try:
                    await asyncio.shield(answer)
                except asyncio.CancelledError as cancellation:
                    deferral.hold(cancellation)
            return await answer
        finally:
            self._slots.release()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(asyncio.to_thread(self._close))
        # Shielded: a cancelled caller stops waiting, but the store is closed all the same.
        await asyncio.shield(self._closing)

    def _close(self) -> None:
        try:
            self._workers.shutdown()
        finally:
            self.direct.close()

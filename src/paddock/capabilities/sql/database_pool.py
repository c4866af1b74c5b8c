"""The open databases of plugins: a file for each plugin and tenant, opened at first use; idle ones are closed first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from paddock.capabilities.sql.connection import GuardedConnection
from paddock.capabilities.sql.limits import StorageLimits
from paddock.capabilities.sql.paths import database_file, database_files
from paddock.capabilities.sql.plugin_database import PluginDatabase
from paddock.capabilities.thread_pool import ThreadPool
from paddock.core.clock import Clock
from paddock.core.errors import StoreUnavailable
from paddock.core.ids import PluginName, Tenant

T = TypeVar("T")

_MAX_THREADS = 32  # a file uses at most one


class DatabasePool:
    """Databases below one directory, with the threads that use them. Expects one event loop.

    Args:
        directory: Where the files are.
        limits: How many files stay open, among others.
        clock: For waits on a database.
    """

    def __init__(self, directory: Path, limits: StorageLimits, clock: Clock) -> None:
        self._directory = directory.absolute()
        self._limits = limits
        self._clock = clock
        self._threads = ThreadPool(_MAX_THREADS)
        self._databases: dict[tuple[Tenant, PluginName], PluginDatabase] = {}  # least recently used first
        self._closings: set[asyncio.Task[None]] = set()
        self._closed = False

    def get(self, tenant: Tenant, plugin: PluginName) -> PluginDatabase:
        """Return the database of a plugin; its file is opened at the first statement.

        Raises:
            StoreUnavailable: the host is closing.
        """
        if self._closed:
            raise StoreUnavailable("the host is closing", code="storage.unavailable")
        key = (tenant, plugin)
        database = self._databases.pop(key, None) or PluginDatabase(
            database_file(self._directory, tenant, plugin), self._limits, self._clock.monotonic
        )
        self._databases[key] = database
        if len(self._databases) > self._limits.open_files:
            self._close_one_idle(database)
        return database

    def find(self, tenant: Tenant, plugin: PluginName) -> PluginDatabase | None:
        """Return the database of a plugin if it was used lately."""
        return self._databases.get((tenant, plugin))

    def tenants_of(self, plugin: PluginName) -> list[Tenant]:
        """Return the tenants whose database of a plugin was used lately."""
        return [tenant for tenant, name in self._databases if name == plugin]

    async def run(
        self,
        database: PluginDatabase,
        work: Callable[[GuardedConnection], T],
        on_done: Callable[[], None] | None = None,
    ) -> T:
        """Run work with a database's file on a thread. `on_done` is called when it ends, even without its caller."""
        return await self._threads.run(partial(database.with_file, work), on_done=on_done)

    async def delete(self, tenant: Tenant, plugin: PluginName) -> None:
        """Delete the files of a database that has no open transaction."""
        database = self.get(tenant, plugin)
        await database.acquire()
        try:
            await self._threads.run(lambda: _delete_files(database))
        finally:
            database.release()
            self._databases.pop((tenant, plugin), None)

    def refuse_new(self) -> tuple[PluginDatabase, ...]:
        """Hand out no database from now on; returns those that are open, to be closed."""
        self._closed = True
        return tuple(self._databases.values())

    async def close(self, database: PluginDatabase) -> None:
        """Close a database's file once nothing uses it."""
        await database.acquire()
        try:
            file = database.take_file()
            if file is not None:
                await self._threads.run(file.close)
        finally:
            database.release()

    async def aclose(self) -> None:
        """Wait for files that are being closed, and end the threads."""
        await asyncio.gather(*self._closings, return_exceptions=True)
        self._threads.close()

    def _close_one_idle(self, in_use: PluginDatabase) -> None:
        unused = next(
            (key for key, database in self._databases.items() if database.idle and database is not in_use), None
        )
        if unused is not None:
            task = asyncio.get_running_loop().create_task(self.close(self._databases.pop(unused)))
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)


def delete_plugin_files(directory: Path, plugin: str) -> int:
    """Delete a plugin's files of all tenants while no host has them open; return their number."""
    deleted = 0
    for folder in directory.iterdir() if directory.is_dir() else ():
        path = database_file(directory, folder.name, plugin)
        deleted += path.exists()
        for file in database_files(path):
            file.unlink(missing_ok=True)
    return deleted


def _delete_files(database: PluginDatabase) -> None:
    opened = database.take_file()
    if opened is not None:
        opened.close()
    for file in database_files(database.path):
        file.unlink(missing_ok=True)

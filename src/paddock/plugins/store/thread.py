"""The plugin store for a daemon: its blocking work on one thread of its own, in the order in which it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypeVar

from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.plugins.store.store import PluginStore

T = TypeVar("T")


class StoreThread:
    """Runs functions of the plugin store where they hold up nobody."""

    def __init__(self, store: PluginStore, executor: ThreadPoolExecutor) -> None:
        self._store = store
        self._executor = executor

    async def run(
        self, fn: Callable[[PluginStore], T], tenant: Tenant = DEFAULT_TENANT, *, by: PrincipalId | None = None
    ) -> T:
        """The function's result, of the store as this tenant has it; `by` is who wants a change, where somebody does.

        It runs to its end even when whoever asked is cancelled.
        """
        store = self._store.for_tenant(tenant).acting_as(by)
        work = asyncio.get_running_loop().run_in_executor(self._executor, fn, store)
        return await asyncio.shield(work)


@asynccontextmanager
async def open_store_thread(
    opening: Callable[[], AbstractContextManager[PluginStore]],
) -> AsyncGenerator[StoreThread, None]:
    """The thread for as long as the block runs. The store is opened, used and closed on it."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="paddock-plugins") as executor:
        opened = opening()
        store = await loop.run_in_executor(executor, opened.__enter__)
        try:
            yield StoreThread(store, executor)
        finally:
            await asyncio.shield(loop.run_in_executor(executor, opened.__exit__, None, None, None))

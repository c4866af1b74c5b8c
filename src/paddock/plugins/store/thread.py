"""Runs the plugin store's blocking work for a daemon on one thread, in order."""

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
    """Runs functions of the plugin store without blocking the event loop."""

    def __init__(self, store: PluginStore, executor: ThreadPoolExecutor) -> None:
        self._store = store
        self._executor = executor

    async def run(
        self, fn: Callable[[PluginStore], T], tenant: Tenant = DEFAULT_TENANT, *, by: PrincipalId | None = None
    ) -> T:
        """Run a function with the store as this tenant sees it; `by` is the principal who makes a change, if any.

        It runs to its end even if the caller is cancelled.
        """
        store = self._store.for_tenant(tenant).acting_as(by)
        work = asyncio.get_running_loop().run_in_executor(self._executor, fn, store)
        return await asyncio.shield(work)


@asynccontextmanager
async def open_store_thread(
    open_store: Callable[[], AbstractContextManager[PluginStore]],
) -> AsyncGenerator[StoreThread, None]:
    """Open the thread for as long as the block runs. The store is opened, used and closed on it."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="paddock-plugins") as executor:
        store_context = open_store()
        store = await loop.run_in_executor(executor, store_context.__enter__)
        try:
            yield StoreThread(store, executor)
        finally:
            await asyncio.shield(loop.run_in_executor(executor, store_context.__exit__, None, None, None))

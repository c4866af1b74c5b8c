"""When pages of a tenant may have changed: one watcher for all that are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio

from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.host.host import Host

CALLS_POLL_INTERVAL_S: Final = 1.0
_RETRY_S: Final = 2.0

Watch: TypeAlias = Callable[[Tenant], AsyncGenerator[None, None]]
"""Yields at once, and then whenever something in a tenant has changed."""

_log = logging.getLogger("paddock.console")


class TenantChanges:
    """Watches the tenants whose pages are open: a watcher for each page would look at each call too."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._watched: dict[Tenant, tuple[list[asyncio.Event], asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def following(self, tenant: Tenant, changed: asyncio.Event) -> AsyncGenerator[None, None]:
        """Set the event at each change of a tenant while the block runs."""
        if tenant not in self._watched:
            followers: list[asyncio.Event] = []
            self._watched[tenant] = followers, asyncio.create_task(self._follow(tenant, followers))
        followers, task = self._watched[tenant]
        followers.append(changed)
        try:
            yield
        finally:
            followers.remove(changed)
            if not followers:
                del self._watched[tenant]
                task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({task})

    async def _follow(self, tenant: Tenant, followers: list[asyncio.Event]) -> None:
        while True:
            try:
                async for _ in self._watch(tenant):
                    for changed in followers:
                        changed.set()
            except PaddockError as error:
                _log.warning("changes of pages could not be read: %s", error.message)
            await asyncio.sleep(_RETRY_S)  # it fell behind, or the store is away


def watch_calls(host: Host) -> Watch:
    """Watch the calls of a tenant, and everything else that is recorded."""

    async def watch(tenant: Tenant) -> AsyncGenerator[None, None]:
        last: object = None
        while True:
            # What runs is known without a read; what ended has an entry.
            running = tuple((one.id, one.status) for one in host.calls.registry.list_current(tenant))
            state = (await host.ledger.reader.end_seq(tenant), running)
            if state != last:
                last = state
                yield
            await asyncio.sleep(CALLS_POLL_INTERVAL_S)

    return watch

"""When the inboxes of a tenant may have changed: one follower of its events for all open pages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.host.host import Host

_RETRY_S: Final = 2.0

_log = logging.getLogger("paddock.console")


@dataclass(slots=True)
class TenantChanges:
    """Shared by the open pages of a tenant: when an inbox in it last changed."""

    pages: int = 0
    changed_at: float = float("-inf")
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def advance(self) -> None:
        self.changed_at = time.monotonic()
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_beyond(self, since: float, timeout_s: float) -> None:
        """Return once something has changed after a time, or after the timeout."""
        if self.changed_at <= since:
            with anyio.move_on_after(timeout_s):
                await self.changed.wait()


class InboxChanges:
    """Follows the changes of tenants whose pages are open: a follower for each page would look at each call too."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._changes: dict[Tenant, tuple[TenantChanges, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def following(self, tenant: Tenant) -> AsyncGenerator[TenantChanges, None]:
        """The changes of a tenant, followed for as long as any page is open."""
        if tenant not in self._changes:
            changes = TenantChanges()
            self._changes[tenant] = changes, asyncio.create_task(self._follow(tenant, changes))
        changes, task = self._changes[tenant]
        changes.pages += 1
        try:
            yield changes
        finally:
            changes.pages -= 1
            if not changes.pages:
                del self._changes[tenant]
                task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({task})

    async def _follow(self, tenant: Tenant, changes: TenantChanges) -> None:
        while True:
            try:
                async for _ in self._host.inbox.changes(tenant):
                    changes.advance()
            except PaddockError as error:
                _log.warning("changes of inboxes could not be read: %s", error.message)
            await asyncio.sleep(_RETRY_S)  # it fell behind, or the store is away

"""Meeting servers: what each says of itself is held against what people accepted before anybody may call it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.host.listings import read_listing, unusable
from paddock.host.log_files import log_name
from paddock.host.plugin_logs import PluginLogs
from paddock.plugins.definitions.accepting import accept, shown_definitions
from paddock.plugins.definitions.comparing import Comparison
from paddock.plugins.definitions.examining import MOST, examine
from paddock.plugins.definitions.pacing import Pace
from paddock.plugins.definitions.recording import meet
from paddock.plugins.definitions.standing import Standing
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread
from paddock.plugins.supervision.deployment import Deployment, InstanceKey
from paddock.plugins.supervision.wire import Definition, Listing

MOST_LOGGED = 20


class Catalogued(Protocol):
    """What may be called right now."""

    def listing(self, key: InstanceKey) -> object:
        """The fingerprint of the tools it has of a plugin."""
        ...

    async def reconcile(self) -> None:
        """Bring it in step with the rows."""
        ...


class Definitions:
    """What servers say of themselves, and people's answers to it.

    Args:
        store: Where both are kept.
        views: The same, for looking.
        logs: Where a plugin's own log says what was kept back.
        catalogue: What may be called.
    """

    def __init__(self, store: StoreThread, views: StoreThread, logs: PluginLogs, catalogue: Catalogued) -> None:
        self._store = store
        self._views = views
        self._logs = logs
        self._catalogue = catalogue
        self._paces: dict[InstanceKey, Pace] = {}

    async def met(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """A server says what it offers. What may be called is settled when this returns.

        Raises:
            PaddockError: it cannot be recorded, so the server must not be used.
        """
        key = deployment.key
        await self._not_too_often(key)
        # Not on the store's thread, which every plugin needs: a server may list a great deal.
        listed = await asyncio.to_thread(examine, definitions, unusable)
        unread = definitions.left_out if isinstance(definitions, Listing) else 0
        left_out = unread + max(0, len(definitions) - MOST)

        def work(store: PluginStore) -> tuple[Comparison, object]:
            found = meet(store, key.tenant, key.plugin, listed, left_out=left_out)
            listing = store.database.read(lambda tx: read_listing(tx, store, key.plugin))
            return found, listing.fingerprint

        found, fingerprint = await self._store.run(work, key.tenant)
        # Asked of the catalogue and not of what is new: another process may have met the same server before.
        if self._catalogue.listing(key) != fingerprint:
            await self._catalogue.reconcile()
        self._log(log_name(key.tenant, key.plugin), found)

    async def shown(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> list[dict[str, Any]]:
        """Everything a plugin's server says of itself, with the differences from what was accepted.

        Raises:
            NotFound: it is not installed.
        """
        shown = await self._views.run(lambda store: shown_definitions(store, plugin), tenant)
        return await asyncio.to_thread(lambda: [one.to_value() for one in shown])

    async def accept(
        self, plugin: str, kind: str, name: str, shown_hash: str, by: str, tenant: Tenant = DEFAULT_TENANT
    ) -> dict[str, Any]:
        """Use a definition from now on; see `plugins/definitions/accepting.py`. It can be called when this returns."""
        row = await self._store.run(lambda store: accept(store, plugin, kind, name, shown_hash, by), tenant)
        await self._catalogue.reconcile()
        return {"plugin": row.plugin, **row.to_value()}

    async def _not_too_often(self, key: InstanceKey) -> None:
        pause = self._paces.setdefault(key, Pace()).wait(asyncio.get_running_loop().time())
        if pause:
            await asyncio.sleep(pause)

    def _log(self, log: str, found: Comparison) -> None:
        kept_back = [one for one in found.all() if one.news and one.standing is not Standing.ACCEPTED]
        for one in kept_back[:MOST_LOGGED]:
            self._logs.write(log, f"[paddock] the {one.kind} {one.name} is {one.standing.value}: {one.reason}")
        if len(kept_back) > MOST_LOGGED:
            self._logs.write(log, f"[paddock] and {len(kept_back) - MOST_LOGGED} more")

"""Meeting servers: what each says of itself is held against what people accepted before anybody may call it."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.tool_records import read_tool_records, unusable_reason
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.accept import accept_definition, review_definitions
from paddock.plugins.tool_pinning.diff import ListingDiff
from paddock.plugins.tool_pinning.normalize import MAX_DEFINITIONS, DefinitionStatus, normalize_definitions
from paddock.plugins.tool_pinning.record import RelistBackoff, record_listing
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.protocol_adapter import Definition, DefinitionList

MAX_LOGGED_DEFINITIONS = 20


class LiveCatalogue(Protocol):
    """What may be called right now."""

    def listing_fingerprint(self, key: InstanceKey) -> object:
        """The fingerprint of the tools it has of a plugin."""
        ...

    async def reconcile(self) -> None:
        """Bring it in step with the rows."""
        ...


class DefinitionService:
    """What servers say of themselves, and people's answers to it.

    Args:
        store: Where both are kept.
        views: The same, for looking.
        logs: Where a plugin's own log says what was kept back.
        catalogue: What may be called.
    """

    def __init__(self, store: StoreThread, views: StoreThread, logs: PluginLogs, catalogue: LiveCatalogue) -> None:
        self._store = store
        self._views = views
        self._logs = logs
        self._catalogue = catalogue
        self._backoffs: dict[InstanceKey, RelistBackoff] = {}

    async def record_discovered(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """A server says what it offers. What may be called is settled when this returns.

        Raises:
            PaddockError: it cannot be recorded, so the server must not be used.
        """
        key = deployment.key
        await self._throttle(key)
        # Not on the store's thread, which every plugin needs: a server may list a great deal.
        listed = await asyncio.to_thread(normalize_definitions, definitions, unusable_reason)
        unread = definitions.omitted_count if isinstance(definitions, DefinitionList) else 0
        left_out = unread + max(0, len(definitions) - MAX_DEFINITIONS)

        def work(store: PluginStore) -> tuple[ListingDiff, object]:
            found = record_listing(store, key.tenant, key.plugin, listed, left_out=left_out)
            listing = store.database.read(lambda tx: read_tool_records(tx, store, key.plugin))
            return found, listing.fingerprint

        found, fingerprint = await self._store.run(work, key.tenant)
        # Asked of the catalogue and not of what is new: another process may have met the same server before.
        if self._catalogue.listing_fingerprint(key) != fingerprint:
            await self._catalogue.reconcile()
        self._log_withheld(log_name(key.tenant, key.plugin), found)

    async def list_definitions(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> list[dict[str, Any]]:
        """Everything a plugin's server says of itself, with the differences from what was accepted.

        Raises:
            NotFound: it is not installed.
        """
        shown = await self._views.run(lambda store: review_definitions(store, plugin), tenant)
        return await asyncio.to_thread(lambda: [one.to_value() for one in shown])

    async def accept(
        self, plugin: str, kind: str, name: str, shown_hash: str, by: str, tenant: Tenant = DEFAULT_TENANT
    ) -> dict[str, Any]:
        """Use a definition from now on; see `plugins/tool_pinning/accept.py`. It can be called when this returns."""
        row = await self._store.run(lambda store: accept_definition(store, plugin, kind, name, shown_hash, by), tenant)
        await self._catalogue.reconcile()
        return {"plugin": row.plugin, **row.to_value()}

    async def _throttle(self, key: InstanceKey) -> None:
        pause = self._backoffs.setdefault(key, RelistBackoff()).next_delay(asyncio.get_running_loop().time())
        if pause:
            await asyncio.sleep(pause)

    def _log_withheld(self, log: str, found: ListingDiff) -> None:
        kept_back = [
            one for one in found.all_diffs() if one.is_change and one.standing is not DefinitionStatus.ACCEPTED
        ]
        for one in kept_back[:MAX_LOGGED_DEFINITIONS]:
            self._logs.write(log, f"[paddock] the {one.kind} {one.name} is {one.standing.value}: {one.reason}")
        if len(kept_back) > MAX_LOGGED_DEFINITIONS:
            self._logs.write(log, f"[paddock] and {len(kept_back) - MAX_LOGGED_DEFINITIONS} more")

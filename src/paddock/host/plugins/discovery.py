"""Discovery of servers' definitions: each listing is compared with the accepted definitions before it may be called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Annotated, TypeAlias, TypedDict

from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.plugins.tool_records import read_tool_records, unusable_reason
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.plugins.tool_pinning.accept import (
    DefinitionReviewJson,
    accept_definition,
    quarantined_definitions,
    review_definitions,
)
from paddock.plugins.tool_pinning.diff import ListingDiff
from paddock.plugins.tool_pinning.normalize import MAX_DEFINITIONS, DefinitionStatus, normalize_definitions
from paddock.plugins.tool_pinning.record import RelistBackoff, record_listing
from paddock.plugins.tool_pinning.rows import DefinitionJson
from paddock.plugins.tool_pinning.tool_trust import TrustedWord
from paddock.plugins.tool_pinning.trust_claims import TrustChange, distrust_claims, trust_claims
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.protocol_adapter import Definition, DefinitionList

MAX_LOGGED_DEFINITIONS = 20

VoidPendingRequests: TypeAlias = Callable[[Tenant, str, Collection[str], str], Awaitable[None]]
"""Voids the approval requests about some tools of a plugin; see `PendingCallResumer.void_pending`."""


RecordTrialListing: TypeAlias = Callable[[InstanceKey, tuple[Definition, ...]], Awaitable[None]]
"""Records what a server listed in a trial; see `DefinitionService.record_tried`."""


class PluginDefinitionJson(DefinitionJson):
    """A definition, with its plugin."""

    plugin: str


class TrustChangeJson(TypedDict):
    """What a person takes a plugin's word for from now on, or no longer."""

    name: str
    version: Annotated[str, "The version in use. Another one has to be trusted anew."]
    word: TrustedWord
    trusted: bool
    tools: Annotated[list[str], "The tools for which this is new."]


class DefinitionService:
    """Records the definitions that servers list, and people's decisions about them.

    Args:
        store: The plugin store.
        views: The plugin store, for reads.
        logs: Receives a line in the plugin's log for each withheld definition.
        reconciler: Updates the catalogue.
        void_pending: Ends requests about tools that are trusted meanwhile.
    """

    def __init__(
        self,
        store: StoreThread,
        views: StoreThread,
        logs: PluginLogs,
        reconciler: Reconciler,
        void_pending: VoidPendingRequests,
    ) -> None:
        self._store = store
        self._views = views
        self._logs = logs
        self._reconciler = reconciler
        self._void_pending = void_pending
        self._backoffs: dict[InstanceKey, RelistBackoff] = {}

    async def record_discovered(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """Record the definitions that a server lists. The catalogue is up to date when this returns.

        Raises:
            PaddockError: it cannot be recorded, so the server must not be used.
        """
        await self._throttle(deployment.key)
        await self._record(deployment.key, definitions, tried=False)

    async def record_tried(self, key: InstanceKey, definitions: tuple[Definition, ...]) -> None:
        """Record the definitions that a server listed in a trial; see `record_listing`."""
        await self._record(key, definitions, tried=True)

    async def _record(self, key: InstanceKey, definitions: tuple[Definition, ...], *, tried: bool) -> None:
        # Not on the store's thread, which every plugin needs: a server may list a great deal.
        normalized = await asyncio.to_thread(normalize_definitions, definitions, unusable_reason)
        omitted_count = definitions.omitted_count if isinstance(definitions, DefinitionList) else 0
        omitted = omitted_count + max(0, len(definitions) - MAX_DEFINITIONS)

        def record(store: PluginStore) -> tuple[ListingDiff, object]:
            diff = record_listing(
                store, key.tenant, key.plugin, normalized, digest=key.digest, left_out=omitted, tried=tried
            )
            tool_records = store.database.read(lambda tx: read_tool_records(tx, store, key.plugin))
            return diff, tool_records.fingerprint

        diff, fingerprint = await self._store.run(record, key.tenant)
        # Compared with the catalogue, not with the diff: another process may have discovered the same server before.
        if self._reconciler.listing_fingerprint(key) != fingerprint:
            await self._reconciler.reconcile()
        self._log_withheld(log_name(key.tenant, key.plugin), diff)

    async def list_definitions(self, plugin: str, tenant: Tenant = DEFAULT_TENANT) -> list[DefinitionReviewJson]:
        """List everything that a plugin's server defines, with the differences from the accepted definitions.

        Raises:
            NotFound: it is not installed.
        """
        reviews = await self._views.run(lambda store: review_definitions(store, plugin), tenant)
        return await asyncio.to_thread(lambda: [review.to_value() for review in reviews])

    async def list_waiting(self, tenant: Tenant = DEFAULT_TENANT) -> list[PluginDefinitionJson]:
        """List the definitions of all plugins that wait for a person's acceptance."""
        rows = await self._views.run(quarantined_definitions, tenant)
        return [{"plugin": row.plugin, **row.to_value()} for row in rows]

    async def accept(
        self, plugin: str, kind: str, name: str, shown_hash: str, by: str, tenant: Tenant = DEFAULT_TENANT
    ) -> PluginDefinitionJson:
        """Accept a definition; see `plugins/tool_pinning/accept.py`. It can be called when this returns."""
        row = await self._store.run(lambda store: accept_definition(store, plugin, kind, name, shown_hash, by), tenant)
        await self._reconciler.reconcile()
        return {"plugin": row.plugin, **row.to_value()}

    async def trust(
        self,
        plugin: str,
        word: TrustedWord,
        tools: Sequence[str] | None,
        by: PrincipalId,
        tenant: Tenant = DEFAULT_TENANT,
        *,
        shown: Mapping[str, str] | None = None,
    ) -> TrustChangeJson:
        """Take a plugin's word for some of its tools; see `plugins/tool_pinning/trust_claims.py`.

        Calls are decided by it when this returns. A tool that only reads is another one than the tool which people were
        asked about, so that requests which wait for an answer about it are void.
        """
        change = await self._store.run(
            lambda store: trust_claims(store, plugin, word, tools, shown or {}), tenant, by=by
        )
        await self._reconciler.reconcile()
        if word is TrustedWord.READS and change.tools:
            reason = "the tool is trusted to only read now, so make the call again"
            await self._void_pending(tenant, change.name, change.tools, reason)
        return _trust_change_json(change, word, trusted=True)

    async def distrust(
        self,
        plugin: str,
        word: TrustedWord,
        tools: Sequence[str] | None,
        by: PrincipalId,
        tenant: Tenant = DEFAULT_TENANT,
    ) -> TrustChangeJson:
        """No longer take a plugin's word for some of its tools, or for all of them."""
        change = await self._store.run(lambda store: distrust_claims(store, plugin, word, tools), tenant, by=by)
        await self._reconciler.reconcile()
        return {
            "name": change.name,
            "version": change.version,
            "word": word,
            "trusted": False,
            "tools": [*change.tools],
        }

    async def _throttle(self, key: InstanceKey) -> None:
        delay_s = self._backoffs.setdefault(key, RelistBackoff()).next_delay(asyncio.get_running_loop().time())
        if delay_s:
            await asyncio.sleep(delay_s)

    def _log_withheld(self, log_name: str, listing_diff: ListingDiff) -> None:
        withheld = [
            diff
            for diff in listing_diff.all_diffs()
            if diff.is_change and diff.standing is not DefinitionStatus.ACCEPTED
        ]
        for diff in withheld[:MAX_LOGGED_DEFINITIONS]:
            self._logs.write(log_name, f"[paddock] the {diff.kind} {diff.name} is {diff.standing.value}: {diff.reason}")
        if len(withheld) > MAX_LOGGED_DEFINITIONS:
            self._logs.write(log_name, f"[paddock] and {len(withheld) - MAX_LOGGED_DEFINITIONS} more")


def _trust_change_json(change: TrustChange, word: TrustedWord, *, trusted: bool) -> TrustChangeJson:
    tools = list(change.tools)
    return {"name": change.name, "version": change.version, "word": word, "trusted": trusted, "tools": tools}

"""Catalogues of tools, prompts and resources under client-facing names, cached as encoded list pages.

Names depend on the tenant's catalogue alone, so that a tool has the same name for everybody. The listed subset depends
on the caller.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.documents import READ_RESOURCE, DocumentIndex, documents_from_manifest
from paddock.gate.catalogue.entry import CatalogueEntry
from paddock.gate.permitted_targets import PermittedTarget
from paddock.host.host import Host
from paddock.mcp_server.results import complete_result
from paddock.mcp_server.revisions import ProtocolRevision
from paddock.mcp_server.tool_definitions import define_tool
from paddock.mcp_server.tool_names import assign_names
from paddock.rpc.errors import INVALID_PARAMS, RpcError

DISCOVERY_TIMEOUT_S: Final = 40.0
"""Time that a list request waits for discovery. Later results are reported as a change of the list."""


class ServerDiscovery:
    """Starts servers whose tools were never listed, such as those imported from a client's settings.

    Args:
        host: Starts the servers.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._attempted: set[object] = set()  # by the entries' keys
        self._locks: dict[Tenant, asyncio.Lock] = {}  # per tenant: a slow server must not delay other tenants

    async def discover(self, context: CallContext) -> None:
        """Start each undiscovered server that the caller may use, and list its features. Each is tried once."""
        if not any(map(self._is_undiscovered, self._host.calls.callable_access.catalogue(context.tenant).entries())):
            return
        # Concurrent requests wait for the same discovery.
        async with self._locks.setdefault(context.tenant, asyncio.Lock()):
            undiscovered = [
                item
                for item in self._host.calls.callable_access.catalogue(context.tenant).entries()
                if self._is_undiscovered(item)
            ]
            permitted = await self._host.calls.callable_access.permitted(
                context, [CallTarget(entry, READ_RESOURCE) for entry in undiscovered]
            )
            entries = [item.target.entry for item in permitted]
            self._attempted |= {entry.key for entry in entries}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCOVERY_TIMEOUT_S):
                    await asyncio.gather(*(self._start_and_list(entry) for entry in entries))

    def _is_undiscovered(self, entry: CatalogueEntry) -> bool:
        return entry.dynamic and not entry.discovered and entry.key not in self._attempted

    async def _start_and_list(self, entry: CatalogueEntry) -> None:
        with contextlib.suppress(PaddockError):  # its failure is reported to operators elsewhere
            await self._host.plugins.features.tools(entry.key.plugin, tenant=entry.key.tenant, discover=True)


CATALOG_TTL_S: Final = 5.0
"""Time that a cached list is used without asking the policy: consents may have changed since."""
_MAX_CACHED_CALLERS: Final = 256  # callers with cached catalogues
_MAX_CACHED_PAGES: Final = 64  # per caller


class PromptTarget(NamedTuple):
    """A prompt of a plugin; `target` is what to call if its server renders it."""

    plugin: str
    name: str
    target: CallTarget | None


class TenantCatalogue:
    """Everything in a tenant's catalogue, by client-facing name."""

    def __init__(self, catalogue: Catalogue, chosen_names: Mapping[str, str]) -> None:
        self.catalogue = catalogue
        self.entries: tuple[CatalogueEntry, ...] = tuple(
            sorted(catalogue.entries(), key=lambda catalogue_entry: catalogue_entry.manifest.name)
        )
        targets = {
            (entry.manifest.name, "" if target.spec is entry.manifest.whole else target.spec.name): target
            for entry in self.entries
            for target in catalogue.targets_of(entry.manifest.name)
            if target.withheld is None
        }
        names = assign_names(targets, chosen_names)
        self.tools: dict[str, CallTarget] = {names[key]: target for key, target in targets.items()}
        # Permission to read applies to all documents of a plugin.
        self.readers: dict[str, CallTarget] = {
            entry.manifest.name: CallTarget(entry, READ_RESOURCE)
            for entry in self.entries
            if entry.dynamic and entry.discovered
        }
        self.prompts: dict[str, PromptTarget] = _collect_prompts(self.entries, chosen_names)
        uri_counts = Counter(
            uri for plugin in self.readers for uri in plugin_documents(catalogue.entry(plugin)).resources
        )
        self.ambiguous_uris = frozenset(listed_uri for listed_uri, count in uri_counts.items() if count > 1)


class CallerCatalogue:
    """The part of a tenant's catalogue that one caller may use, with list pages cached per revision."""

    def __init__(
        self, tenant_catalogue: TenantCatalogue, policy: object, made_at: float, permitted: Iterable[PermittedTarget]
    ) -> None:
        self.tenant_catalogue = tenant_catalogue
        self.policy = policy
        self.built_at = made_at
        by_target = {item.target: item for item in permitted}
        self.tools = {name: by_target[target] for name, target in tenant_catalogue.tools.items() if target in by_target}
        self.readers = frozenset(plugin for plugin, target in tenant_catalogue.readers.items() if target in by_target)
        self.prompts = {
            name: item
            for name, item in tenant_catalogue.prompts.items()
            if item.target is None or item.target in by_target
        }
        self._pages: dict[tuple[str, str, str], bytes] = {}

    async def page(
        self,
        kind: str,
        cursor: str,
        revision: ProtocolRevision,
        size: int,
        build_items: Callable[[], Awaitable[dict[str, dict[str, Any]]]],
    ) -> bytes:
        """Return one page of a list as an encoded result.

        Args:
            kind: What is listed; the name of the result's member.
            cursor: Where the page starts; empty for the first.
            revision: The client's protocol revision.
            size: Items per page.
            build_items: Builds the whole list, by sortable name.

        Raises:
            RpcError: the cursor is not ours.
        """
        key = (kind, cursor, revision.name)
        page = self._pages.get(key)
        if page is None:
            page = orjson.dumps(
                _build_page(kind, decode_cursor(cursor), revision, size, await build_items()), default=str
            )
            if len(self._pages) < _MAX_CACHED_PAGES:  # clients can invent any number of cursors
                self._pages[key] = page
        return page


def _build_page(
    kind: str, last: str, revision: ProtocolRevision, size: int, items: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    names = sorted(name for name in items if name > last)
    result: dict[str, Any] = {kind: [items[name] for name in names[:size]]}
    if len(names) > size:
        result["nextCursor"] = encode_cursor(names[size - 1])
    if revision.stateless:
        result |= {"ttlMs": 0, "cacheScope": "private"}
    return complete_result(result, revision)


def encode_cursor(name: str) -> str:
    """Return the cursor behind an item. It encodes the name, so that lists may change between two pages."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def decode_cursor(cursor: str) -> str:
    """Return the name that a cursor stands behind.

    Raises:
        RpcError: it is malformed.
    """
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (binascii.Error, ValueError):
        raise RpcError(INVALID_PARAMS, "the cursor is not one that we gave out") from None


class CatalogueCache:
    """Cached catalogues of all tenants and callers.

    Args:
        host: Provides the catalogues, and permissions.
        chosen_names: Names that the operator chose, by full name.
        clock: For the age of cached catalogues.
    """

    def __init__(self, host: Host, chosen_names: Mapping[str, str], clock: Clock) -> None:
        self._host = host
        self._chosen_names = chosen_names
        self._clock = clock
        self._discovery = ServerDiscovery(host)
        self._tenant_catalogues: dict[Tenant, TenantCatalogue] = {}
        self._caller_catalogues: dict[Principal, CallerCatalogue] = {}

    def for_tenant(self, tenant: Tenant) -> TenantCatalogue:
        """Return the catalogue of a tenant."""
        current = self._host.calls.callable_access.catalogue(tenant)
        catalogue = self._tenant_catalogues.get(tenant)
        if catalogue is None or catalogue.catalogue is not current:
            catalogue = self._tenant_catalogues[tenant] = TenantCatalogue(current, self._chosen_names)
        return catalogue

    async def for_caller(self, context: CallContext) -> CallerCatalogue:
        """Return the catalogue of a caller."""
        await self._discovery.discover(context)
        access, tenant_catalogue = self._host.calls.callable_access, self.for_tenant(context.tenant)
        cached, now, policy = (
            self._caller_catalogues.get(context.principal),
            self._clock.monotonic(),
            access.active_policy,
        )
        if (
            cached is not None
            and cached.tenant_catalogue is tenant_catalogue
            and cached.policy is policy
            and now - cached.built_at < CATALOG_TTL_S
        ):
            return cached
        prompts = (prompt.target for prompt in tenant_catalogue.prompts.values() if prompt.target is not None)
        permitted = await access.permitted(
            context, (*tenant_catalogue.tools.values(), *tenant_catalogue.readers.values(), *prompts)
        )
        if len(self._caller_catalogues) >= _MAX_CACHED_CALLERS:
            self._caller_catalogues.clear()
        self._caller_catalogues[context.principal] = catalogue = CallerCatalogue(
            tenant_catalogue, policy, now, permitted
        )
        return catalogue


async def list_tool_definitions(catalogue: CallerCatalogue, revision: ProtocolRevision) -> dict[str, dict[str, Any]]:
    """Return the definitions of all tools in a caller's catalogue, by name."""
    return {name: define_tool(permitted, name, revision) for name, permitted in catalogue.tools.items()}


def plugin_documents(entry: CatalogueEntry) -> DocumentIndex:
    """Return the resources and prompts of a plugin."""
    return entry.documents if entry.documents is not None else documents_from_manifest(entry.manifest)


def _collect_prompts(entries: Iterable[CatalogueEntry], chosen_names: Mapping[str, str]) -> dict[str, PromptTarget]:
    """Return all available prompts by client-facing name: rendered here, or by a discovered server."""
    prompts = {
        (entry.manifest.name, name): PromptTarget(
            entry.manifest.name,
            name,
            None if prompt.text is not None else CallTarget(entry, prompt.spec, requested_name=name),
        )
        for entry in entries
        for name, prompt in plugin_documents(entry).prompts.items()
        if prompt.text is not None or (entry.dynamic and entry.discovered)
    }
    names = assign_names(prompts, chosen_names)
    return {names[key]: prompt for key, prompt in prompts.items()}


def read_cursor(params: Mapping[str, Any]) -> str:
    """Return the cursor of a list request, empty for the first page.

    Raises:
        RpcError: it is not text.
    """
    cursor: Any = params.get("cursor", "")
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "`cursor` is not text")
    return cursor

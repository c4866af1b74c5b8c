"""What there is for a caller: tools, prompts and documents under the names that clients use, kept ready as bytes.

The names depend on the catalogue alone, so that one person's tools are called the same as another's. What is listed
under them depends on who asks.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections import Counter as Counted
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.catalogue.catalogue import CallTarget, Catalogue, CatalogueEntry
from paddock.gate.catalogue.documents import READ_RESOURCE, DocumentIndex, documents_from_manifest
from paddock.gate.permitted import PermittedTarget
from paddock.host.host import Host
from paddock.mcp_server.results import complete_result
from paddock.mcp_server.revisions import ProtocolRevision
from paddock.mcp_server.tool_definitions import define_tool
from paddock.mcp_server.tool_names import assign_names
from paddock.rpc.errors import INVALID_PARAMS, RpcError

DISCOVERY_TIMEOUT_S: Final = 40.0
"""Seconds that whoever asks for a list waits for those. What comes later is told as a change of the list."""


class ServerDiscovery:
    """Has servers met whose tools were never listed: of a client's settings that were imported, all of them.

    Args:
        host: Starts them.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._attempted: set[object] = set()  # by the entries' keys
        self._locks: dict[Tenant, asyncio.Lock] = {}  # one tenant's slow server is nobody else's matter

    async def discover(self, context: CallContext) -> None:
        """Let each server that this caller may use say what it offers, where it never did. Each is tried once."""
        if not any(map(self._is_undiscovered, self._host.callable_access.catalogue(context.tenant).entries())):
            return
        # Whoever comes meanwhile waits for the same ones.
        async with self._locks.setdefault(context.tenant, asyncio.Lock()):
            new = [
                one
                for one in self._host.callable_access.catalogue(context.tenant).entries()
                if self._is_undiscovered(one)
            ]
            offered = await self._host.callable_access.permitted(
                context, [CallTarget(entry, READ_RESOURCE) for entry in new]
            )
            entries = [one.target.entry for one in offered]
            self._attempted |= {entry.key for entry in entries}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCOVERY_TIMEOUT_S):
                    await asyncio.gather(*(self._start_and_list(entry) for entry in entries))

    def _is_undiscovered(self, entry: CatalogueEntry) -> bool:
        return entry.dynamic and not entry.discovered and entry.key not in self._attempted

    async def _start_and_list(self, entry: CatalogueEntry) -> None:
        with contextlib.suppress(PaddockError):  # it does not run, which whoever looks after it is told
            await self._host.tools(entry.key.plugin, tenant=entry.key.tenant, discover=True)


CATALOG_TTL_S: Final = 5.0
"""Seconds that a list is given again without asking the rules: what somebody consented to may have changed since."""
_MAX_CACHED_CALLERS: Final = 256  # lists of callers
_MAX_CACHED_PAGES: Final = 64  # of one caller


class PromptTarget(NamedTuple):
    """A prompt of a plugin; what asks for it, where its server is asked."""

    plugin: str
    name: str
    target: CallTarget | None


class TenantCatalog:
    """Everything that one catalogue has, by the names that clients use."""

    def __init__(self, catalogue: Catalogue, chosen: Mapping[str, str]) -> None:
        self.catalogue = catalogue
        self.entries: tuple[CatalogueEntry, ...] = tuple(sorted(catalogue.entries(), key=lambda one: one.manifest.name))
        targets = {
            (entry.manifest.name, "" if target.spec is entry.manifest.whole else target.spec.name): target
            for entry in self.entries
            for target in catalogue.targets_of(entry.manifest.name)
            if target.withheld is None
        }
        names = assign_names(targets, chosen)
        self.tools: dict[str, CallTarget] = {names[own]: target for own, target in targets.items()}
        # Whoever may read one document of a plugin may read all of them.
        self.readers: dict[str, CallTarget] = {
            entry.manifest.name: CallTarget(entry, READ_RESOURCE)
            for entry in self.entries
            if entry.dynamic and entry.discovered
        }
        self.prompts: dict[str, PromptTarget] = _collect_prompts(self.entries, chosen)
        listed = Counted(uri for plugin in self.readers for uri in plugin_documents(catalogue.entry(plugin)).resources)
        self.ambiguous_uris = frozenset(name for name, count in listed.items() if count > 1)


class CallerCatalog:
    """What one caller sees of it: each list made once, and written once for each revision."""

    def __init__(
        self, counter: TenantCatalog, rules: object, made_at: float, offered: Iterable[PermittedTarget]
    ) -> None:
        self.tenant_catalog = counter
        self.rules = rules
        self.made_at = made_at
        by_target = {one.target: one for one in offered}
        self.tools = {name: by_target[target] for name, target in counter.tools.items() if target in by_target}
        self.readers = frozenset(plugin for plugin, target in counter.readers.items() if target in by_target)
        self.prompts = {
            name: one for name, one in counter.prompts.items() if one.target is None or one.target in by_target
        }
        self._pages: dict[tuple[str, str, str], bytes] = {}

    async def page(
        self,
        kind: str,
        cursor: str,
        revision: ProtocolRevision,
        size: int,
        made: Callable[[], Awaitable[dict[str, dict[str, Any]]]],
    ) -> bytes:
        """One page of a list as the result of a request.

        Args:
            kind: What is listed, as the result's member is called.
            cursor: Where it goes on; empty at the beginning.
            revision: Whose form it has.
            size: How many stand on a page.
            made: Makes the whole list, by names that sort.

        Raises:
            RpcFault: the cursor is none of ours.
        """
        key = (kind, cursor, revision.name)
        found = self._pages.get(key)
        if found is None:
            found = orjson.dumps(_build_page(kind, decode_cursor(cursor), revision, size, await made()), default=str)
            if len(self._pages) < _MAX_CACHED_PAGES:  # a client can make up cursors without end
                self._pages[key] = found
        return found


def _build_page(
    kind: str, last: str, revision: ProtocolRevision, size: int, every: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    names = sorted(name for name in every if name > last)
    shown: dict[str, Any] = {kind: [every[name] for name in names[:size]]}
    if len(names) > size:
        shown["nextCursor"] = encode_cursor(names[size - 1])
    if revision.stateless:
        shown |= {"ttlMs": 0, "cacheScope": "private"}
    return complete_result(shown, revision)


def encode_cursor(name: str) -> str:
    """The cursor behind an entry. By its name, so that lists may change between two pages."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def decode_cursor(cursor: str) -> str:
    """The name behind which a cursor stands.

    Raises:
        RpcFault: it is none.
    """
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (binascii.Error, ValueError):
        raise RpcError(INVALID_PARAMS, "the cursor is not one that we gave out") from None


class CatalogCache:
    """The shelves of all callers.

    Args:
        host: Knows what there is, and who may have it.
        chosen: The names that the operator chose, by full name.
        clock: Tells how old a shelf is.
    """

    def __init__(self, host: Host, chosen: Mapping[str, str], clock: Clock) -> None:
        self._host = host
        self._chosen = chosen
        self._clock = clock
        self._discovery = ServerDiscovery(host)
        self._tenant_catalogs: dict[Tenant, TenantCatalog] = {}
        self._caller_catalogs: dict[Principal, CallerCatalog] = {}

    def for_tenant(self, tenant: Tenant) -> TenantCatalog:
        """What there is for a tenant."""
        catalogue = self._host.callable_access.catalogue(tenant)
        found = self._tenant_catalogs.get(tenant)
        if found is None or found.catalogue is not catalogue:
            found = self._tenant_catalogs[tenant] = TenantCatalog(catalogue, self._chosen)
        return found

    async def for_caller(self, context: CallContext) -> CallerCatalog:
        """What there is for a caller."""
        await self._discovery.discover(context)
        exposing, counter = self._host.callable_access, self.for_tenant(context.tenant)
        found, now, rules = (
            self._caller_catalogs.get(context.principal),
            self._clock.monotonic(),
            exposing.active_policy,
        )
        if (
            found is not None
            and found.tenant_catalog is counter
            and found.rules is rules
            and now - found.made_at < CATALOG_TTL_S
        ):
            return found
        prompts = (one.target for one in counter.prompts.values() if one.target is not None)
        offered = await exposing.permitted(context, (*counter.tools.values(), *counter.readers.values(), *prompts))
        if len(self._caller_catalogs) >= _MAX_CACHED_CALLERS:
            self._caller_catalogs.clear()
        self._caller_catalogs[context.principal] = shelf = CallerCatalog(counter, rules, now, offered)
        return shelf


async def list_tool_definitions(shelf: CallerCatalog, revision: ProtocolRevision) -> dict[str, dict[str, Any]]:
    """Every tool that a caller sees, by name."""
    return {name: define_tool(offered, name, revision) for name, offered in shelf.tools.items()}


def plugin_documents(entry: CatalogueEntry) -> DocumentIndex:
    """What a plugin has to read."""
    return entry.documents if entry.documents is not None else documents_from_manifest(entry.manifest)


def _collect_prompts(entries: Iterable[CatalogueEntry], chosen: Mapping[str, str]) -> dict[str, PromptTarget]:
    """Every prompt that can be had, by the name that clients use: filled in here, or by a server that was met."""
    found = {
        (entry.manifest.name, name): PromptTarget(
            entry.manifest.name, name, None if prompt.text is not None else CallTarget(entry, prompt.spec, asked=name)
        )
        for entry in entries
        for name, prompt in plugin_documents(entry).prompts.items()
        if prompt.text is not None or (entry.dynamic and entry.discovered)
    }
    names = assign_names(found, chosen)
    return {names[own]: prompt for own, prompt in found.items()}


def read_cursor(params: Mapping[str, Any]) -> str:
    """Where a list goes on.

    Raises:
        RpcFault: it is no text.
    """
    cursor: Any = params.get("cursor", "")
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "`cursor` is not text")
    return cursor

"""News of what there is: which lists have changed, told to whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final, cast

from paddock.core.ids import Tenant
from paddock.gate.catalogue.catalogue import Catalogue, CatalogueEntry
from paddock.host.host import Host
from paddock.mcp_server.catalog import plugin_documents

LIST_KINDS: Final = ("tools", "resources", "prompts")
COALESCE_S: Final = 0.1
"""Seconds in which changes are told together: a plugin that starts changes several things at once."""


class ListChangeNotifier:
    """Finds out what changed and tells it.

    Args:
        host: Says that something did.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rules = host.callable_access.active_policy
        self._known: dict[Tenant, Catalogue] = {}
        self._listeners: set[Callable[[Tenant, frozenset[str]], None]] = set()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        host.callable_access.set_change_listener(self._schedule)

    def subscribe(self, told: Callable[[Tenant, frozenset[str]], None]) -> Callable[[], None]:
        """Have each change told, with the tenant and the kinds of lists. Gives what ends that."""
        self._listeners.add(told)
        return lambda: self._listeners.discard(told)

    def track_tenant(self, tenant: Tenant) -> None:
        """Somebody of this tenant wants to hear of changes from here on."""
        self._known.setdefault(tenant, self._host.callable_access.catalogue(tenant))

    def requested_notifications(self, asked: Any) -> dict[str, bool]:
        """Those of the news that a client asks for which there are."""
        told = cast("dict[str, Any]", asked) if isinstance(asked, dict) else {}
        names = (f"{kind}ListChanged" for kind in LIST_KINDS)
        return {name: True for name in names if told.get(name) is True}

    async def follow(self, tenant: Tenant, wanted: Mapping[str, bool]) -> AsyncGenerator[str, None]:
        """The methods of the notifications that are wanted, as they come, until we close."""
        kinds = frozenset(kind for kind in LIST_KINDS if f"{kind}ListChanged" in wanted)
        waiting: set[str] = set()
        news = asyncio.Event()

        def told(whose: Tenant, changed: frozenset[str]) -> None:
            if whose == tenant and changed & kinds:
                waiting.update(changed & kinds)
                news.set()

        self.track_tenant(tenant)
        end = self.subscribe(told)
        closed = asyncio.ensure_future(self._closed.wait())
        closed.add_done_callback(lambda _: news.set())
        try:
            while not self._closed.is_set():
                await news.wait()
                news.clear()
                for kind in sorted(waiting):
                    waiting.discard(kind)
                    yield list_changed_method(kind)
        finally:
            end()
            closed.cancel()

    def close(self) -> None:
        """Tell nothing more: whoever listens comes to an end."""
        self._closed.set()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._timer is None and not self._closed.is_set():
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self._notify)

    def _notify(self) -> None:
        self._timer = None
        rules, before = self._host.callable_access.active_policy, self._rules
        self._rules = rules
        for tenant, known in tuple(self._known.items()):
            now = self._known[tenant] = self._host.callable_access.catalogue(tenant)
            kinds = frozenset(LIST_KINDS) if rules is not before else changed_kinds(known.entries(), now.entries())
            if kinds:
                for told in tuple(self._listeners):
                    told(tenant, kinds)


def list_changed_method(kind: str) -> str:
    """The notification that a kind of list has changed."""
    return f"notifications/{kind}/list_changed"


def changed_kinds(before: Iterable[CatalogueEntry], now: Iterable[CatalogueEntry]) -> frozenset[str]:
    """Which lists are others than before."""
    old, new = tuple(before), tuple(now)
    return frozenset(kind for kind, looks in _SNAPSHOTS.items() if looks(old) != looks(new))


def _tools_snapshot(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    return {one.manifest.name: (one.manifest.callables, one.schemas, tuple(one.withheld)) for one in entries}


def _resources_snapshot(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    found = ((one.manifest.name, plugin_documents(one)) for one in entries if one.discovered)
    return {name: (read.resources, read.templates) for name, read in found if read.resources or read.templates}


def _prompts_snapshot(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    return {one.manifest.name: plugin_documents(one).prompts for one in entries if plugin_documents(one).prompts}


_SNAPSHOTS: Final[Mapping[str, Callable[[Iterable[CatalogueEntry]], Mapping[str, Any]]]] = {
    "tools": _tools_snapshot,
    "resources": _resources_snapshot,
    "prompts": _prompts_snapshot,
}

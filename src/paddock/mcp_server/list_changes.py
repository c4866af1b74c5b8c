"""`list_changed` notifications: detects which lists have changed, and notifies subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final, cast

from paddock.core.ids import Tenant
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.entry import CatalogueEntry
from paddock.host.host import Host
from paddock.mcp_server.catalogue import plugin_documents

LIST_KINDS: Final = ("tools", "resources", "prompts")
COALESCE_S: Final = 0.1
"""Time in which changes are coalesced: a starting plugin changes several lists at once."""


class ListChangeNotifier:
    """Detects changes of tool, resource and prompt lists, and notifies listeners.

    Args:
        host: Reports that its catalogue or policy has changed.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._policy = host.calls.callable_access.active_policy
        self._catalogues: dict[Tenant, Catalogue] = {}
        self._listeners: set[Callable[[Tenant, frozenset[str]], None]] = set()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._unreported: dict[Tenant, frozenset[str]] = {}
        host.calls.callable_access.add_change_listener(self._collect)

    def subscribe(self, listener: Callable[[Tenant, frozenset[str]], None]) -> Callable[[], None]:
        """Call a listener with tenant and kinds of each change; returns a function that unsubscribes it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def track_tenant(self, tenant: Tenant) -> None:
        """Detect changes for this tenant from now on."""
        self._catalogues.setdefault(tenant, self._host.calls.callable_access.catalogue(tenant))

    def requested_notifications(self, requested: Any) -> dict[str, bool]:
        """Return those of the requested notifications that are supported."""
        fields = cast("dict[str, Any]", requested) if isinstance(requested, dict) else {}
        names = (f"{kind}ListChanged" for kind in LIST_KINDS)
        return {name: True for name in names if fields.get(name) is True}

    async def follow(self, tenant: Tenant, requested: Mapping[str, bool]) -> AsyncGenerator[str, None]:
        """Yield the methods of the requested notifications as changes happen, until closed."""
        kinds = frozenset(kind for kind in LIST_KINDS if f"{kind}ListChanged" in requested)
        pending: set[str] = set()
        wake = asyncio.Event()

        def on_change(changed_tenant: Tenant, changed: frozenset[str]) -> None:
            if changed_tenant == tenant and changed & kinds:
                pending.update(changed & kinds)
                wake.set()

        self.track_tenant(tenant)
        unsubscribe = self.subscribe(on_change)
        closed = asyncio.ensure_future(self._closed.wait())
        closed.add_done_callback(lambda _: wake.set())
        try:
            while not self._closed.is_set():
                await wake.wait()
                wake.clear()
                for kind in sorted(pending):
                    pending.discard(kind)
                    yield list_changed_method(kind)
        finally:
            unsubscribe()
            closed.cancel()

    def close(self) -> None:
        """End all `follow` iterations and notify nobody any more."""
        self._closed.set()
        if self._timer is not None:
            self._timer.cancel()

    def _collect(self) -> None:
        """Note what has just changed. A change that is taken back at once counts: a client may have seen it."""
        access = self._host.calls.callable_access
        policy_replaced, self._policy = access.active_policy is not self._policy, access.active_policy
        for tenant, previous in tuple(self._catalogues.items()):
            current = self._catalogues[tenant] = access.catalogue(tenant)
            if policy_replaced:
                kinds = frozenset(LIST_KINDS)
            elif current is previous:
                continue
            else:
                kinds = changed_kinds(previous.entries(), current.entries())
            if kinds:
                self._unreported[tenant] = self._unreported.get(tenant, frozenset()) | kinds
        if self._unreported and self._timer is None and not self._closed.is_set():
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self._notify)

    def _notify(self) -> None:
        self._timer = None
        unreported, self._unreported = self._unreported, {}
        for tenant, kinds in unreported.items():
            for listener in tuple(self._listeners):
                listener(tenant, kinds)


def list_changed_method(kind: str) -> str:
    """Return the notification method for a changed kind of list."""
    return f"notifications/{kind}/list_changed"


def changed_kinds(before: Iterable[CatalogueEntry], now: Iterable[CatalogueEntry]) -> frozenset[str]:
    """Return the kinds of lists that differ between two sets of entries."""
    old, new = tuple(before), tuple(now)
    return frozenset(kind for kind, snapshot in _SNAPSHOTS.items() if snapshot(old) != snapshot(new))


def _tools_snapshot(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    return {entry.manifest.name: (entry.manifest.callables, entry.schemas, tuple(entry.withheld)) for entry in entries}


def _resources_snapshot(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    documents = ((entry.manifest.name, plugin_documents(entry)) for entry in entries if entry.discovered)
    return {
        name: (document.resources, document.templates)
        for name, document in documents
        if document.resources or document.templates
    }


def _prompts_snapshot(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    return {
        entry.manifest.name: plugin_documents(entry).prompts for entry in entries if plugin_documents(entry).prompts
    }


_SNAPSHOTS: Final[Mapping[str, Callable[[Iterable[CatalogueEntry]], Mapping[str, Any]]]] = {
    "tools": _tools_snapshot,
    "resources": _resources_snapshot,
    "prompts": _prompts_snapshot,
}

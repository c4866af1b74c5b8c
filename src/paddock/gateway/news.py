"""News of what there is: which lists have changed, told to whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final, cast

from paddock.core.ids import Tenant
from paddock.gate.catalogue import Catalogue, Entry
from paddock.gateway.shelves import documents_of
from paddock.host.host import Host

KINDS: Final = ("tools", "resources", "prompts")
TOGETHER: Final = 0.1
"""Seconds in which changes are told together: a plugin that starts changes several things at once."""


class News:
    """Finds out what changed and tells it.

    Args:
        host: Says that something did.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rules = host.exposing.rules
        self._known: dict[Tenant, Catalogue] = {}
        self._listeners: set[Callable[[Tenant, frozenset[str]], None]] = set()
        self._closed = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        host.exposing.when_changed(self._changed)

    def listen(self, told: Callable[[Tenant, frozenset[str]], None]) -> Callable[[], None]:
        """Have each change told, with the tenant and the kinds of lists. Gives what ends that."""
        self._listeners.add(told)
        return lambda: self._listeners.discard(told)

    def know(self, tenant: Tenant) -> None:
        """Somebody of this tenant wants to hear of changes from here on."""
        self._known.setdefault(tenant, self._host.exposing.catalogue(tenant))

    def wanted(self, asked: Any) -> dict[str, bool]:
        """Those of the news that a client asks for which there are."""
        told = cast("dict[str, Any]", asked) if isinstance(asked, dict) else {}
        names = (f"{kind}ListChanged" for kind in KINDS)
        return {name: True for name in names if told.get(name) is True}

    async def follow(self, tenant: Tenant, wanted: Mapping[str, bool]) -> AsyncGenerator[str, None]:
        """The methods of the notifications that are wanted, as they come, until we close."""
        kinds = frozenset(kind for kind in KINDS if f"{kind}ListChanged" in wanted)
        waiting: set[str] = set()
        news = asyncio.Event()

        def told(whose: Tenant, changed: frozenset[str]) -> None:
            if whose == tenant and changed & kinds:
                waiting.update(changed & kinds)
                news.set()

        self.know(tenant)
        end = self.listen(told)
        closed = asyncio.ensure_future(self._closed.wait())
        closed.add_done_callback(lambda _: news.set())
        try:
            while not self._closed.is_set():
                await news.wait()
                news.clear()
                for kind in sorted(waiting):
                    waiting.discard(kind)
                    yield method_for(kind)
        finally:
            end()
            closed.cancel()

    def close(self) -> None:
        """Tell nothing more: whoever listens comes to an end."""
        self._closed.set()
        if self._soon is not None:
            self._soon.cancel()

    def _changed(self) -> None:
        if self._soon is None and not self._closed.is_set():
            self._soon = asyncio.get_running_loop().call_later(TOGETHER, self._tell)

    def _tell(self) -> None:
        self._soon = None
        rules, before = self._host.exposing.rules, self._rules
        self._rules = rules
        for tenant, known in tuple(self._known.items()):
            now = self._known[tenant] = self._host.exposing.catalogue(tenant)
            kinds = frozenset(KINDS) if rules is not before else changed_kinds(known.entries(), now.entries())
            if kinds:
                for told in tuple(self._listeners):
                    told(tenant, kinds)


def method_for(kind: str) -> str:
    """The notification that a kind of list has changed."""
    return f"notifications/{kind}/list_changed"


def changed_kinds(before: Iterable[Entry], now: Iterable[Entry]) -> frozenset[str]:
    """Which lists are others than before."""
    old, new = tuple(before), tuple(now)
    return frozenset(kind for kind, looks in _LOOKS.items() if looks(old) != looks(new))


def _tools(entries: Iterable[Entry]) -> dict[str, Any]:
    return {one.manifest.name: (one.manifest.callables, one.schemas, tuple(one.withheld)) for one in entries}


def _resources(entries: Iterable[Entry]) -> dict[str, Any]:
    found = ((one.manifest.name, documents_of(one)) for one in entries if one.met)
    return {name: (read.resources, read.templates) for name, read in found if read.resources or read.templates}


def _prompts(entries: Iterable[Entry]) -> dict[str, Any]:
    return {one.manifest.name: documents_of(one).prompts for one in entries if documents_of(one).prompts}


_LOOKS: Final[Mapping[str, Callable[[Iterable[Entry]], Mapping[str, Any]]]] = {
    "tools": _tools,
    "resources": _resources,
    "prompts": _prompts,
}

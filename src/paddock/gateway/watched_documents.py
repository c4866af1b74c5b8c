"""Documents that clients watch: their servers are asked to say when one changes, and what they say is passed on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gateway.exchange import Exchange, Watcher, notification
from paddock.host.host import Host
from paddock.rpc.faults import RESOURCE_BUSY, RpcFault

MOST: Final = 256  # that one client watches
_UPDATED: Final = "notifications/resources/updated"


class Document(NamedTuple):
    """A document of a tenant's plugin, by the address that it has there."""

    tenant: Tenant
    plugin: str
    uri: str


class WatchedDocuments:
    """Who watches what.

    Args:
        host: Asks the servers, and hears what they say.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._watched: dict[Document, dict[Watcher, str]] = {}  # with the address that the client knows it by
        self._following: dict[tuple[Tenant, str], asyncio.Task[None]] = {}

    async def watch(self, exchange: Exchange, watcher: Watcher, shown: str, plugin: str, uri: str) -> None:
        """Have a client told when a document changes, until it is closed.

        Raises:
            RpcFault: it watches too many.
            PaddockError: the server does not tell, or the client may not ask it.
        """
        document = Document(exchange.context.tenant, plugin, uri)
        if len(watcher.closing) >= MOST and document not in watcher.closing:
            raise RpcFault(RESOURCE_BUSY, f"{MOST} documents are watched already")
        await self._ask(exchange, plugin, uri, wanted=True)
        self._watched.setdefault(document, {})[watcher] = shown
        watcher.closing[document] = lambda: self._leave(document, watcher)
        following = self._following.get(document[:2])
        if following is None or following.done():  # it is, where the plugin was gone meanwhile
            self._following[document[:2]] = asyncio.ensure_future(self._follow(*document[:2]))

    async def unwatch(self, exchange: Exchange, watcher: Watcher, plugin: str, uri: str) -> None:
        """Tell a client no more of it. Harmless where it was not told."""
        document = Document(exchange.context.tenant, plugin, uri)
        self._leave(document, watcher)
        if document not in self._watched:
            with suppress(PaddockError):  # then it says so once more, to nobody
                await self._ask(exchange, plugin, uri, wanted=False)

    def close(self) -> None:
        """Follow nobody any more."""
        for task in self._following.values():
            task.cancel()

    async def _ask(self, exchange: Exchange, plugin: str, uri: str, *, wanted: bool) -> None:
        exposing, context = self._host.exposing, exchange.context
        target = exposing.catalogue(context.tenant).subscription(plugin, uri, wanted=wanted)
        await exposing.call(target, {"uri": uri}, context)

    def _leave(self, document: Document, watcher: Watcher) -> None:
        watcher.closing.pop(document, None)
        those = self._watched.get(document)
        if those is None:
            return
        those.pop(watcher, None)
        if not those:
            del self._watched[document]
            if not any(one[:2] == document[:2] for one in self._watched):
                self._following.pop(document[:2]).cancel()

    async def _follow(self, tenant: Tenant, plugin: str) -> None:
        async with aclosing(await self._host.follow_notifications(plugin, tenant)) as told:
            async for news in told:
                if news["notification"] == _UPDATED:
                    await self._tell(tenant, plugin, news["params"])

    async def _tell(self, tenant: Tenant, plugin: str, params: dict[str, Any]) -> None:
        uri = params.get("uri")
        if not isinstance(uri, str):
            return
        document = Document(tenant, plugin, uri)
        for watcher, shown in tuple(self._watched.get(document, {}).items()):
            readable = await self._may_read(watcher, document)
            if readable and watcher in self._watched.get(document, {}):  # it may have left meanwhile
                watcher.tell(notification(_UPDATED, {"uri": shown}))

    async def _may_read(self, watcher: Watcher, document: Document) -> bool:
        """Whether it still may: rules change, and people lose roles. It watches on, for they may get them back."""
        exposing = self._host.exposing
        try:
            target = exposing.catalogue(document.tenant).resource(document.plugin, document.uri)
            return bool(await exposing.offered(await watcher.context(), (target,)))
        except PaddockError:
            return False

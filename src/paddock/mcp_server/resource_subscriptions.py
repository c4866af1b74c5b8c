"""Documents that clients watch: their servers are asked to say when one changes, and what they say is passed on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.mcp_server.exchange import McpExchange, Subscriber, encode_notification
from paddock.rpc.errors import RESOURCE_BUSY, RpcError

MAX_SUBSCRIPTIONS: Final = 256  # that one client watches
_UPDATED_METHOD: Final = "notifications/resources/updated"


class SubscribedResource(NamedTuple):
    """A document of a tenant's plugin, by the address that it has there."""

    tenant: Tenant
    plugin: str
    uri: str


class ResourceSubscriptions:
    """Who watches what.

    Args:
        host: Asks the servers, and hears what they say.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._watched: dict[
            SubscribedResource, dict[Subscriber, str]
        ] = {}  # with the address that the client knows it by
        self._following: dict[tuple[Tenant, str], asyncio.Task[None]] = {}

    async def subscribe(self, exchange: McpExchange, watcher: Subscriber, shown: str, plugin: str, uri: str) -> None:
        """Have a client told when a document changes, until it is closed.

        Raises:
            RpcFault: it watches too many.
            PaddockError: the server does not tell, or the client may not ask it.
        """
        document = SubscribedResource(exchange.context.tenant, plugin, uri)
        if len(watcher.on_close) >= MAX_SUBSCRIPTIONS and document not in watcher.on_close:
            raise RpcError(RESOURCE_BUSY, f"{MAX_SUBSCRIPTIONS} documents are watched already")
        await self._send_subscription(exchange, plugin, uri, wanted=True)
        self._watched.setdefault(document, {})[watcher] = shown
        watcher.on_close[document] = lambda: self._remove(document, watcher)
        following = self._following.get(document[:2])
        if following is None or following.done():  # it is, where the plugin was gone meanwhile
            self._following[document[:2]] = asyncio.ensure_future(self._follow(*document[:2]))

    async def unsubscribe(self, exchange: McpExchange, watcher: Subscriber, plugin: str, uri: str) -> None:
        """Tell a client no more of it. Harmless where it was not told."""
        document = SubscribedResource(exchange.context.tenant, plugin, uri)
        self._remove(document, watcher)
        if document not in self._watched:
            with suppress(PaddockError):  # then it says so once more, to nobody
                await self._send_subscription(exchange, plugin, uri, wanted=False)

    def close(self) -> None:
        """Follow nobody any more."""
        for task in self._following.values():
            task.cancel()

    async def _send_subscription(self, exchange: McpExchange, plugin: str, uri: str, *, wanted: bool) -> None:
        exposing, context = self._host.callable_access, exchange.context
        target = exposing.catalogue(context.tenant).subscription_target(plugin, uri, wanted=wanted)
        await exposing.call(target, {"uri": uri}, context)

    def _remove(self, document: SubscribedResource, watcher: Subscriber) -> None:
        watcher.on_close.pop(document, None)
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
                if news["notification"] == _UPDATED_METHOD:
                    await self._notify_updated(tenant, plugin, news["params"])

    async def _notify_updated(self, tenant: Tenant, plugin: str, params: dict[str, Any]) -> None:
        uri = params.get("uri")
        if not isinstance(uri, str):
            return
        document = SubscribedResource(tenant, plugin, uri)
        for watcher, shown in tuple(self._watched.get(document, {}).items()):
            readable = await self._may_read(watcher, document)
            if readable and watcher in self._watched.get(document, {}):  # it may have left meanwhile
                watcher.send(encode_notification(_UPDATED_METHOD, {"uri": shown}))

    async def _may_read(self, watcher: Subscriber, document: SubscribedResource) -> bool:
        """Whether it still may: rules change, and people lose roles. It watches on, for they may get them back."""
        exposing = self._host.callable_access
        try:
            target = exposing.catalogue(document.tenant).find_resource(document.plugin, document.uri)
            return bool(await exposing.permitted(await watcher.context(), (target,)))
        except PaddockError:
            return False

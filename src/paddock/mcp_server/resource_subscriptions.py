"""Resource subscriptions: subscribes to the servers' resources and passes their updates on to clients."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from paddock.core.errors import PaddockError
from paddock.core.ids import PluginName, Tenant
from paddock.host.host import Host
from paddock.host.plugins.pubsub import Subscription
from paddock.mcp_server.exchange import McpExchange, Subscriber, encode_notification
from paddock.rpc.errors import RESOURCE_BUSY, RpcError

MAX_SUBSCRIPTIONS: Final = 256  # per client
_UPDATED_METHOD: Final = "notifications/resources/updated"


class SubscribedResource(NamedTuple):
    """A resource of a tenant's plugin, by the plugin's own URI."""

    tenant: Tenant
    plugin: str
    uri: str


class ResourceSubscriptions:
    """Subscriptions of all clients.

    Args:
        host: Calls the servers, and receives their notifications.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        # Per subscriber, the URI that the client knows the resource by.
        self._subscribers: dict[SubscribedResource, dict[Subscriber, str]] = {}
        self._following: dict[tuple[Tenant, str], asyncio.Task[None]] = {}

    async def subscribe(
        self, exchange: McpExchange, subscriber: Subscriber, client_uri: str, plugin: str, uri: str
    ) -> None:
        """Notify a client of updates of a resource, until it is closed.

        Raises:
            RpcError: it has too many subscriptions.
            PaddockError: the server rejects the subscription, or the client may not make it.
        """
        resource = SubscribedResource(exchange.context.tenant, plugin, uri)
        if len(subscriber.on_close) >= MAX_SUBSCRIPTIONS and resource not in subscriber.on_close:
            raise RpcError(RESOURCE_BUSY, f"{MAX_SUBSCRIPTIONS} documents are watched already")
        is_new = resource not in subscriber.on_close
        # Before the server is asked: it may tell of an update in the same breath as it answers.
        self._add(resource, subscriber, client_uri)
        try:
            await self._send_subscription(exchange, plugin, uri, subscribed=True)
        except BaseException:
            if is_new:
                self._remove(resource, subscriber)
            raise

    async def unsubscribe(self, exchange: McpExchange, subscriber: Subscriber, plugin: str, uri: str) -> None:
        """End a client's subscription. No effect if it has none."""
        resource = SubscribedResource(exchange.context.tenant, plugin, uri)
        self._remove(resource, subscriber)
        if resource not in self._subscribers:
            with suppress(PaddockError):  # its further notifications are ignored
                await self._send_subscription(exchange, plugin, uri, subscribed=False)

    def close(self) -> None:
        """Stop following all plugins."""
        for task in self._following.values():
            task.cancel()

    async def _send_subscription(self, exchange: McpExchange, plugin: str, uri: str, *, subscribed: bool) -> None:
        access, context = self._host.calls.callable_access, exchange.context
        target = access.catalogue(context.tenant).subscription_target(plugin, uri, subscribe=subscribed)
        await access.call(target, {"uri": uri}, context)

    def _add(self, resource: SubscribedResource, subscriber: Subscriber, client_uri: str) -> None:
        self._subscribers.setdefault(resource, {})[subscriber] = client_uri
        subscriber.on_close[resource] = lambda: self._remove(resource, subscriber)
        tenant, plugin, _ = resource
        if (tenant, plugin) not in self._following:
            notifications = self._host.plugins.processes.notifications_of(PluginName(plugin), tenant)
            self._following[tenant, plugin] = asyncio.ensure_future(self._forward(tenant, plugin, notifications))

    def _remove(self, resource: SubscribedResource, subscriber: Subscriber) -> None:
        subscriber.on_close.pop(resource, None)
        subscribers = self._subscribers.get(resource)
        if subscribers is None:
            return
        subscribers.pop(subscriber, None)
        if not subscribers:
            del self._subscribers[resource]
            if not any(other[:2] == resource[:2] for other in self._subscribers):
                self._following.pop(resource[:2]).cancel()

    async def _forward(self, tenant: Tenant, plugin: str, notifications: Subscription[dict[str, Any]]) -> None:
        async with aclosing(notifications):
            async for message in notifications:
                if message["notification"] == _UPDATED_METHOD:
                    await self._notify_updated(tenant, plugin, message["params"])

    async def _notify_updated(self, tenant: Tenant, plugin: str, params: dict[str, Any]) -> None:
        uri = params.get("uri")
        if not isinstance(uri, str):
            return
        resource = SubscribedResource(tenant, plugin, uri)
        for subscriber, client_uri in tuple(self._subscribers.get(resource, {}).items()):
            readable = await self._may_read(subscriber, resource)
            if readable and subscriber in self._subscribers.get(resource, {}):  # it may have left meanwhile
                subscriber.send(encode_notification(_UPDATED_METHOD, {"uri": client_uri}))

    async def _may_read(self, subscriber: Subscriber, resource: SubscribedResource) -> bool:
        """Return whether a subscriber may still read the resource: policy and roles change.

        The subscription stays either way, since the rights may come back.
        """
        access = self._host.calls.callable_access
        try:
            target = access.catalogue(resource.tenant).find_resource(resource.plugin, resource.uri)
            return bool(await access.permitted(await subscriber.context(), (target,)))
        except PaddockError:
            return False

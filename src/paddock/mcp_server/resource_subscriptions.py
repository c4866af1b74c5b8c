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


class _Attempt:
    """One request for a subscription that its server has not answered yet. Equal to no other."""

    def __init__(self, client_uri: str) -> None:
        self.client_uri = client_uri


class _ClientSubscription:
    """A client's subscription of one resource: the URI that its last request named, unless the server refused that.

    Attributes:
        client_uri: The URI of the last successful request; None if there was none.
    """

    def __init__(self) -> None:
        self.client_uri: str | None = None
        self._pending: list[_Attempt] = []

    @property
    def shown_uri(self) -> str | None:
        """The URI to tell the client. An update may come before the answer to the request that named it."""
        return self._pending[-1].client_uri if self._pending else self.client_uri

    def begin(self, client_uri: str) -> _Attempt:
        attempt = _Attempt(client_uri)
        self._pending.append(attempt)
        return attempt

    def end(self, attempt: _Attempt, *, succeeded: bool) -> None:
        self._pending.remove(attempt)
        if succeeded:
            self.client_uri = attempt.client_uri


class ResourceSubscriptions:
    """Subscriptions of all clients.

    Args:
        host: Calls the servers, and receives their notifications.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._subscribers: dict[SubscribedResource, dict[Subscriber, _ClientSubscription]] = {}
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
        # Before the server is asked: it may tell of an update in the same breath as it answers.
        subscription = self._add(resource, subscriber)
        attempt, succeeded = subscription.begin(client_uri), False
        try:
            await self._send_subscription(exchange, plugin, uri, subscribed=True)
            succeeded = True
        finally:
            subscription.end(attempt, succeeded=succeeded)
            # It may have been removed meanwhile, and another one made.
            is_current = self._subscribers.get(resource, {}).get(subscriber) is subscription
            if subscription.shown_uri is None and is_current:
                self._remove(resource, subscriber)

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

    def _add(self, resource: SubscribedResource, subscriber: Subscriber) -> _ClientSubscription:
        """Return the client's subscription of a resource, a new one if it has none."""
        subscription = self._subscribers.setdefault(resource, {}).setdefault(subscriber, _ClientSubscription())
        subscriber.on_close[resource] = lambda: self._remove(resource, subscriber)
        tenant, plugin, _ = resource
        if (tenant, plugin) not in self._following:
            notifications = self._host.plugins.processes.notifications_of(PluginName(plugin), tenant)
            self._following[tenant, plugin] = asyncio.ensure_future(self._forward(tenant, plugin, notifications))
        return subscription

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
        for subscriber, subscription in tuple(self._subscribers.get(resource, {}).items()):
            readable = await self._may_read(subscriber, resource)
            is_current = self._subscribers.get(resource, {}).get(subscriber) is subscription  # it may have left
            if readable and is_current:
                subscriber.send(encode_notification(_UPDATED_METHOD, {"uri": subscription.shown_uri}))

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

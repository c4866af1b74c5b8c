"""Dispatches supervisor events: log lines to files, notifications and state changes to subscribers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paddock.core.ids import Tenant
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.pubsub import PubSub, Subscription
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.lifecycle import LIVE_STATES
from paddock.runtime.protocol_adapter import Definition


class SupervisorEvents:
    """The supervisor's `PluginObserver`: forwards everything without waiting.

    Args:
        logs: Receives log lines.
        on_ended: Called when a plugin has no process any more.
        on_given_up: Called when a plugin failed too often, with the reason.
        on_definitions: Called with the definitions that a server lists, before it is used.
    """

    def __init__(
        self,
        logs: PluginLogs,
        *,
        on_ended: Callable[[InstanceKey], object],
        on_given_up: Callable[[InstanceKey, str], None],
        on_definitions: Callable[[Deployment, tuple[Definition, ...]], Awaitable[None]],
    ) -> None:
        self._logs = logs
        self._notifications: PubSub[dict[str, Any]] = PubSub(256)
        self._states: PubSub[PluginStatus] = PubSub(1_000)
        self._on_ended = on_ended
        self._on_given_up = on_given_up
        self._on_definitions = on_definitions

    def on_log_line(self, key: InstanceKey, line: str, request: str | None) -> None:
        self._logs.write(log_name(key.tenant, key.plugin), line, request)

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        entry = {"plugin": key.plugin, "notification": method, "params": dict(params)}
        self._notifications.publish(f"{key.tenant}/{key.plugin}", entry)

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        await self._on_definitions(deployment, definitions)

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        self._states.publish("", status)
        if status.state not in LIVE_STATES:
            self._on_ended(key)

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        self._on_given_up(key, reason)

    def follow_notifications(self, tenant: Tenant, plugin: str) -> Subscription[dict[str, Any]]:
        """Follow the notifications of one tenant's plugin from now on."""
        return self._notifications.subscribe(f"{tenant}/{plugin}")

    def follow_states(self) -> Subscription[PluginStatus]:
        """Follow every plugin state change of all tenants from now on."""
        return self._states.subscribe("")

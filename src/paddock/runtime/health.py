"""Health checks of one plugin process."""

from __future__ import annotations

from paddock.core.events.event import EventSink
from paddock.core.events.plugin_runtime import PluginHealthFail
from paddock.runtime.connection import PluginConnection
from paddock.runtime.deployment import Deployment

MAX_HEALTH_FAILURES = 3


class Unhealthy(Exception):
    """The plugin failed several health checks in a row."""


class HealthMonitor:
    """Checks the health of one process."""

    def __init__(self, deployment: Deployment, connection: PluginConnection, publish: EventSink) -> None:
        self._deployment = deployment
        self._connection = connection
        self._publish = publish
        self._failures = 0

    async def check(self) -> None:
        """Perform one health check.

        Raises:
            Unhealthy: three checks in a row failed.
            PeerLost: the plugin is gone.
        """
        if await self._is_healthy():
            self._failures = 0
            return
        self._failures += 1
        self._publish.publish(PluginHealthFail(name=self._deployment.name, consecutive_failures=self._failures))
        if self._failures >= MAX_HEALTH_FAILURES:
            raise Unhealthy

    async def _is_healthy(self) -> bool:
        try:
            return await self._connection.adapter.ping(self._connection)
        except TimeoutError:
            # A plugin that processes one call at a time is busy, and that call has a deadline of its own.
            return self._connection.in_flight > 0

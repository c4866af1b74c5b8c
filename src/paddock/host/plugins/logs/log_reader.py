"""Reads and follows the logs of plugins by plugin name."""

from __future__ import annotations

from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.host.plugins.logs.log_files import LogLineJson, log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.pubsub import Subscription
from paddock.plugins.store.lookup import resolve_name
from paddock.plugins.store.thread import StoreThread


class PluginLogReader:
    """Reads what plugins wrote to their standard error, each tenant its own.

    Args:
        views: The plugin store, for reads.
        logs: The log lines.
    """

    def __init__(self, views: StoreThread, logs: PluginLogs) -> None:
        self._views = views
        self._logs = logs

    async def read_last(self, name: str, *, tenant: Tenant = DEFAULT_TENANT, lines: int = 50) -> list[LogLineJson]:
        """Return the last lines that a tenant's plugin wrote, oldest first.

        Raises:
            NotFound: it is not installed.
            HostError: the disk with the log files does not answer.
        """
        return await self._logs.read_last(await self._log_name(name, tenant), lines)

    async def read_request(
        self, name: str, request: str, *, tenant: Tenant = DEFAULT_TENANT, lines: int = 200
    ) -> list[LogLineJson]:
        """Return the last lines that a tenant's plugin wrote for one request. Raises as `read_last` does."""
        return await self._logs.read_request(await self._log_name(name, tenant), request, lines)

    async def follow(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Subscription[LogLineJson]:
        """Follow new log lines, starting when this is awaited, not at the first read. Raises as `read_last` does."""
        return self._logs.follow(await self._log_name(name, tenant))

    async def _log_name(self, name: str, tenant: Tenant) -> str:
        return log_name(tenant, await self._views.run(lambda store: resolve_name(store, name)))

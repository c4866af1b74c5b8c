"""What plugins say and do besides answering: log lines to their file, the rest to whoever follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paddock.core.ids import Tenant
from paddock.host.followers import Followers, Following
from paddock.host.log_files import log_name
from paddock.host.plugin_logs import PluginLogs
from paddock.plugins.supervision.deployment import Deployment, InstanceKey, Status
from paddock.plugins.supervision.lifecycle import ALIVE
from paddock.plugins.supervision.wire import Definition


class PluginNews:
    """The supervisor's `Watcher`: passes everything on and waits for nobody."""

    def __init__(self, logs: PluginLogs) -> None:
        self._logs = logs
        self._notifications: Followers[dict[str, Any]] = Followers(256)
        self._states: Followers[Status] = Followers(1_000)
        self.on_given_up: Callable[[InstanceKey, str], None] = lambda _key, _reason: None
        self.on_ended: Callable[[InstanceKey], object] = lambda _key: None
        self.on_met: Callable[[Deployment, tuple[Definition, ...]], Awaitable[None]] = _ignored

    def logged(self, key: InstanceKey, line: str) -> None:
        self._logs.write(log_name(key.tenant, key.plugin), line)

    def notified(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        entry = {"plugin": key.plugin, "notification": method, "params": dict(params)}
        self._notifications.tell(f"{key.tenant}/{key.plugin}", entry)

    async def met(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        await self.on_met(deployment, definitions)

    def moved(self, key: InstanceKey, status: Status) -> None:
        self._states.tell("", status)
        if status.state not in ALIVE:
            self.on_ended(key)

    def given_up(self, key: InstanceKey, reason: str) -> None:
        self.on_given_up(key, reason)

    def notifications(self, tenant: Tenant, plugin: str) -> Following[dict[str, Any]]:
        """The notifications of one tenant's plugin from now on."""
        return self._notifications.follow(f"{tenant}/{plugin}")

    def states(self) -> Following[Status]:
        """Every change of any plugin's state from now on, whichever tenant's it is."""
        return self._states.follow("")


async def _ignored(_deployment: Deployment, _definitions: tuple[Definition, ...]) -> None:
    pass

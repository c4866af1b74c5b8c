"""What plugins say besides answering: log lines to their file, notifications to whoever follows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from paddock.host.plugin_logs import PluginLogs
from paddock.plugins.supervision.deployment import InstanceKey

FOLLOWER_NOTIFICATIONS = 256


class PluginNews:
    """The supervisor's `Watcher`: passes everything on and waits for nobody."""

    def __init__(self, logs: PluginLogs) -> None:
        self._logs = logs
        self._followers: dict[str, set[asyncio.Queue[dict[str, Any]]]] = {}
        self.on_given_up: Callable[[InstanceKey, str], None] = lambda _key, _reason: None

    def logged(self, key: InstanceKey, line: str) -> None:
        self._logs.write(key.plugin, line)

    def notified(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        entry = {"plugin": key.plugin, "notification": method, "params": dict(params)}
        for follower in self._followers.get(key.plugin, ()):
            with contextlib.suppress(asyncio.QueueFull):  # a follower that does not keep up misses some
                follower.put_nowait(entry)

    def given_up(self, key: InstanceKey, reason: str) -> None:
        self.on_given_up(key, reason)

    async def follow(self, plugin: str) -> AsyncGenerator[dict[str, Any], None]:
        """The notifications of one plugin from now on."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(FOLLOWER_NOTIFICATIONS)
        followers = self._followers.setdefault(plugin, set())
        followers.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            followers.discard(queue)

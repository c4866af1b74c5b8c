"""What a plugin under development says and does besides answering, passed on to its author."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from paddock.host.listings import read_tool
from paddock.host.plugin_logs import PluginLogs
from paddock.host.workshop.author_words import for_its_author
from paddock.manifest.model import CallableSpec
from paddock.plugins.definitions.examining import TOOL
from paddock.plugins.supervision.deployment import Deployment, InstanceKey, Status
from paddock.plugins.supervision.lifecycle import ALIVE, State
from paddock.plugins.supervision.wire import Definition


class Audience(Protocol):
    """Who is told what happens. Called from the event loop; must be quick and must not raise."""

    def logged(self, line: str) -> None:
        """A line of the plugin's log."""
        ...

    def announced(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification of the plugin's."""
        ...

    def ended(self, reason: str, hint: str) -> None:
        """The version that serves fell over, and is started again."""
        ...


class WorkshopNews:
    """The supervisor's `Watcher`. Told of all versions, it speaks of the one that serves.

    Attributes:
        serving: Which that is.
        tools: What servers say that they offer, where no manifest does.
        on_tools: Told when the one that serves offers something else.
        on_gone: Told when a process is gone.
    """

    def __init__(self, logs: PluginLogs, audience: Audience) -> None:
        self.serving: InstanceKey | None = None
        self.tools: dict[InstanceKey, tuple[CallableSpec, ...]] = {}
        self.on_tools: Callable[[tuple[CallableSpec, ...]], None] = lambda _tools: None
        self.on_gone: Callable[[InstanceKey], object] = lambda _key: None
        self._logs = logs
        self._audience = audience

    def logged(self, key: InstanceKey, line: str) -> None:
        self._logs.write(key.plugin, line)

    def notified(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        if key == self.serving:
            self._audience.announced(method, params)

    async def met(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """A server says what it offers. Its author need not accept it: all that can be used is used."""
        found = [read_tool(one.raw) for one in definitions if one.kind == TOOL]
        for one in found:
            if not isinstance(one, CallableSpec):
                self._logs.write(deployment.name, f"[paddock] a tool cannot be used: {one.reason}; {one.repair}")
        tools = self.tools[deployment.key] = tuple(one for one in found if isinstance(one, CallableSpec))
        if deployment.key == self.serving:
            self.on_tools(tools)

    def moved(self, key: InstanceKey, status: Status) -> None:
        if key == self.serving and status.state in (State.CRASHED, State.FAILED):
            self._audience.ended(status.reason, for_its_author(status.hint, key.plugin))
        if status.state not in ALIVE:
            self.on_gone(key)

    def given_up(self, key: InstanceKey, reason: str) -> None:
        del key, reason  # told when it moved; the next save starts it afresh

"""What a plugin under development says and does besides answering, passed on to its author."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from paddock.host.dev.author import rephrase_for_author
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.tool_records import parse_tool
from paddock.manifest.model import CallableSpec
from paddock.plugins.tool_pinning.normalize import TOOL
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.lifecycle import LIVE_STATES, PluginState
from paddock.runtime.protocol_adapter import Definition


class DevEventListener(Protocol):
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


class DevSupervisorEvents:
    """The supervisor's `Watcher`. Told of all versions, it speaks of the one that serves.

    Attributes:
        serving: Which that is.
        tools: What servers say that they offer, where no manifest does.
        on_tools: Told when the one that serves offers something else.
        on_gone: Told when a process is gone.
    """

    def __init__(self, logs: PluginLogs, audience: DevEventListener) -> None:
        self.serving: InstanceKey | None = None
        self.tools: dict[InstanceKey, tuple[CallableSpec, ...]] = {}
        self.on_tools: Callable[[tuple[CallableSpec, ...]], None] = lambda _tools: None
        self.on_gone: Callable[[InstanceKey], object] = lambda _key: None
        self._logs = logs
        self._listener = audience

    def on_log_line(self, key: InstanceKey, line: str) -> None:
        self._logs.write(key.plugin, line)

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        if key == self.serving:
            self._listener.announced(method, params)

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """A server says what it offers. Its author need not accept it: all that can be used is used."""
        found = [parse_tool(one.raw) for one in definitions if one.kind == TOOL]
        for one in found:
            if not isinstance(one, CallableSpec):
                self._logs.write(deployment.name, f"[paddock] a tool cannot be used: {one.reason}; {one.repair}")
        tools = self.tools[deployment.key] = tuple(one for one in found if isinstance(one, CallableSpec))
        if deployment.key == self.serving:
            self.on_tools(tools)

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        if key == self.serving and status.state in (PluginState.CRASHED, PluginState.FAILED):
            self._listener.ended(status.reason, rephrase_for_author(status.hint, key.plugin))
        if status.state not in LIVE_STATES:
            self.on_gone(key)

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        del key, reason  # told when it moved; the next save starts it afresh

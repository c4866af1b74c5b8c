"""Supervisor events of a plugin under development, forwarded to its author."""

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
    """Receives events of a dev host. Called from the event loop; must be quick and must not raise."""

    def logged(self, line: str) -> None:
        """Called with each line of the plugin's log."""
        ...

    def announced(self, method: str, params: Mapping[str, Any]) -> None:
        """Called with each notification of the plugin."""
        ...

    def ended(self, reason: str, hint: str) -> None:
        """Called when the serving version crashed; it is restarted."""
        ...


class DevSupervisorEvents:
    """The supervisor's `PluginObserver`. It is notified of all versions, and forwards events of the serving one.

    Attributes:
        serving: The instance that serves.
        tools: The tools that servers list, if the manifest declares none.
        on_tools: Called when the tools of the serving version change.
        on_gone: Called when a process has ended.
    """

    def __init__(self, logs: PluginLogs, listener: DevEventListener) -> None:
        self.serving: InstanceKey | None = None
        self.tools: dict[InstanceKey, tuple[CallableSpec, ...]] = {}
        self.on_tools: Callable[[tuple[CallableSpec, ...]], None] = lambda _tools: None
        self.on_gone: Callable[[InstanceKey], object] = lambda _key: None
        self._logs = logs
        self._listener = listener

    def on_log_line(self, key: InstanceKey, line: str) -> None:
        self._logs.write(key.plugin, line)

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        if key == self.serving:
            self._listener.announced(method, params)

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """Record the tools that a server lists. Its author need not accept them: every usable tool is used."""
        parsed = [parse_tool(definition.raw) for definition in definitions if definition.kind == TOOL]
        for tool in parsed:
            if not isinstance(tool, CallableSpec):
                self._logs.write(deployment.name, f"[paddock] a tool cannot be used: {tool.reason}; {tool.repair}")
        tools = self.tools[deployment.key] = tuple(tool for tool in parsed if isinstance(tool, CallableSpec))
        if deployment.key == self.serving:
            self.on_tools(tools)

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        if key == self.serving and status.state in (PluginState.CRASHED, PluginState.FAILED):
            self._listener.ended(status.reason, rephrase_for_author(status.hint, key.plugin))
        if status.state not in LIVE_STATES:
            self.on_gone(key)

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        del key, reason  # reported by the state change; the next save starts a new snapshot

"""Supervisor events of a plugin under development, forwarded to its author."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from paddock.host.dev.author import author_hint
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.host.plugins.tool_records import parse_tool
from paddock.manifest.model import CallableSpec
from paddock.plugins.tool_pinning.normalize import TOOL, Definition
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.lifecycle import LIVE_STATES, PluginState


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

    Args:
        logs: Receives log lines.
        listener: Receives the events of the serving version.
        on_ended: Called when a version has no process any more.
        on_tools: Called when the tools of the serving version change.

    Attributes:
        tools: The tools that servers list, if the manifest declares none.
    """

    def __init__(
        self,
        logs: PluginLogs,
        listener: DevEventListener,
        *,
        on_ended: Callable[[InstanceKey], object],
        on_tools: Callable[[tuple[CallableSpec, ...]], None],
    ) -> None:
        self.tools: dict[InstanceKey, tuple[CallableSpec, ...]] = {}
        self._serving: InstanceKey | None = None
        self._logs = logs
        self._listener = listener
        self._on_ended = on_ended
        self._on_tools = on_tools

    def serve(self, key: InstanceKey) -> None:
        """Note which instance serves from now on."""
        self._serving = key

    def on_log_line(self, key: InstanceKey, line: str, request: str | None) -> None:
        self._logs.write(key.plugin, line, request)

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        if key == self._serving:
            self._listener.announced(method, params)

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """Record the tools that a server lists. Its author need not accept them: every usable tool is used."""
        parsed = [parse_tool(definition.raw) for definition in definitions if definition.kind == TOOL]
        for tool in parsed:
            if not isinstance(tool, CallableSpec):
                self._logs.write(deployment.name, f"[paddock] a tool cannot be used: {tool.reason}; {tool.repair}")
        tools = self.tools[deployment.key] = tuple(tool for tool in parsed if isinstance(tool, CallableSpec))
        if deployment.key == self._serving:
            self._on_tools(tools)

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        if key == self._serving and status.state in (PluginState.CRASHED, PluginState.FAILED):
            self._listener.ended(status.reason, author_hint(status.hint, status.action))
        if status.state not in LIVE_STATES:
            self._on_ended(key)

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        del key, reason  # reported by the state change; the next save starts a new snapshot

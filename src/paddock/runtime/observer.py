"""The interfaces through which the runtime reports what plugins do, beyond the audit events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from paddock.plugins.tool_pinning.normalize import Definition
from paddock.runtime.deployment import Deployment, InstanceKey, PluginStatus
from paddock.runtime.exit_reason import KillReason


class PluginObserver(Protocol):
    """Observes all plugin instances of a supervisor."""

    def on_log_line(self, key: InstanceKey, line: str, request: str | None) -> None:
        """The plugin wrote a line to its log, for this request if it worked on that alone."""
        ...

    def on_notification(self, key: InstanceKey, method: str, params: Mapping[str, Any]) -> None:
        """The plugin sent a notification."""
        ...

    async def on_definitions_listed(self, deployment: Deployment, definitions: tuple[Definition, ...]) -> None:
        """The plugin listed its definitions. It is not called before this returns."""
        ...

    def on_state_change(self, key: InstanceKey, status: PluginStatus) -> None:
        """The plugin changed its state."""
        ...

    def on_give_up(self, key: InstanceKey, reason: str) -> None:
        """The restart budget is spent: it is not started again until a person enables it."""
        ...


class ConnectionObserver(Protocol):
    """Observes the connection to one plugin process; implemented by the owner of the process."""

    def on_fatal(self, reason: KillReason) -> None:
        """The process must not survive what just happened."""
        ...

    def on_log_line(self, line: str) -> None:
        """There is a line for the plugin's log."""
        ...

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """The plugin sent a notification."""
        ...

    def on_list_changed(self) -> None:
        """The plugin says that its definitions changed."""
        ...

"""Calls a Plugin as the host would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paddock_sdk.call import NO_CALLER, Context, JsonObject
from paddock_sdk.stdio import Plugin
from paddock_sdk.testing.fake_host import FakeHost
from paddock_sdk.testing.memory_wire import MemoryLines, unwrap_result
from paddock_sdk.wire import Wire


class PluginTester:
    """One plugin, after its handshake.

    Args:
        plugin: The Plugin of a program.
        host: The host that it talks to.
        config: The initial configuration.
        effects: The effects that tools declare in the manifest, by tool name; a tool that is not listed is not checked.

    Attributes:
        events: The events of the last call before its result.
        notifications: The notifications so far: name and parameters.
        log: The log lines so far.
    """

    def __init__(
        self,
        plugin: Plugin,
        host: FakeHost | None = None,
        config: Mapping[str, Any] | None = None,
        effects: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self.plugin = plugin
        self._effects = {tool: frozenset(declared) for tool, declared in (effects or {}).items()}
        self.host = host or FakeHost()
        self.events: list[JsonObject] = []
        self.notifications: list[tuple[str, JsonObject]] = []
        self.log: list[JsonObject] = []
        plugin.log.on_line = self.log.append
        self._lines = MemoryLines(self.host, plugin.namespace)
        self._wire = Wire(self._lines, plugin.log, plugin.namespace)
        plugin.forget()
        greeting = {"plugin_name": plugin.name, "api_version": 1, "capabilities": list(self.host.capabilities)}
        self.introduction: JsonObject = self.request("initialize", greeting)
        self._notify("initialized", {})
        if config is not None:
            self.configure(config)

    def call(self, tool: str, params: Mapping[str, Any] | None = None, context: Context = NO_CALLER) -> Any:
        """Call a tool and return its result.

        Raises:
            PluginFault: it answered with an error; `error_code` and `data` are as on the wire.
        """
        self.host.effects = self._effects.get(tool)
        try:
            return self.request(f"{self.plugin.name}.{tool}", params, context)
        finally:
            self.host.effects = None

    def fire(self, hook: str, params: Mapping[str, Any] | None = None, context: Context = NO_CALLER) -> Any:
        """Fire a hook and return its result. Raises like `call`."""
        return self.request(f"{self.plugin.namespace}.hook.{hook}", params, context)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Send a new configuration. Raises PluginFault if the plugin refuses it."""
        self.request("config.update", {"config": dict(config)})

    def request(self, method: str, params: Mapping[str, Any] | None = None, context: Context = NO_CALLER) -> Any:
        """Call any method by its name on the wire. Raises like `call`."""
        request_params = {**(params or {}), "_context": context._asdict(), "_call": "call-under-test"}
        self.plugin.serve_one(self._wire, {"jsonrpc": "2.0", "id": 1, "method": method, "params": request_params})
        output = self._lines.take_output()
        self.events = output.events
        self.notifications += output.notifications
        return unwrap_result(output.answer)

    def _notify(self, method: str, params: JsonObject) -> None:
        self.plugin.serve_one(self._wire, {"jsonrpc": "2.0", "method": method, "params": params})

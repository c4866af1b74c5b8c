"""Calls the entry point of a Shu, Kernel or native plugin as the worker would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from paddock_sdk.call import JsonObject
from paddock_sdk.coroutine_runner import run_until_loop
from paddock_sdk.log import Log
from paddock_sdk.testing.fake_host import FakeHost
from paddock_sdk.testing.memory_wire import MemoryLines, unwrap_result
from paddock_sdk.wire import Wire
from paddock_sdk.worker.entry_point import load_target
from paddock_sdk.worker.load_plugin import entry_factory
from paddock_sdk.worker.worker import NAMESPACE, Worker
from paddock_sdk.worker.worker_config import WorkerConfig

NAME = "under_test"
_READS = frozenset({"read_only"})


class EntryTester:
    """One class or function, loaded and ready. All calls share it, also those of an agent.

    Args:
        found: The class or function itself, or its entry point `package.module:Attribute`.
        dialect: The dialect of its contract.
        kind: In the Kernel dialect: `agent`, `operator`, `tool` or `adapter`.
        host: The host that it talks to.

    Attributes:
        events: The events of the last call before its result.
        log: The log lines so far.
    """

    def __init__(
        self,
        found: Any,
        dialect: Literal["shu", "kernel", "native"] = "shu",
        *,
        kind: Literal["plugin", "agent", "operator", "tool", "adapter"] = "plugin",
        host: FakeHost | None = None,
    ) -> None:
        self.host = host or FakeHost()
        self.events: list[JsonObject] = []
        self.log: list[JsonObject] = []
        log = Log(NAME)
        log.on_line = self.log.append
        worker_config = WorkerConfig(NAME, "0.0.0", dialect, kind, "", {}, self.host.capabilities)
        loaded, target = (
            (load_target(found), found) if isinstance(found, str) else (found, getattr(found, "__name__", NAME))
        )
        self._native = dialect == "native"
        # The effects of other plugins are declared in their manifests.
        self._only_reads = dialect == "shu" or kind in ("agent", "tool", "adapter")
        self._worker = Worker(worker_config, {NAME: entry_factory(worker_config)(NAME, target, loaded)}, log)
        self._lines = MemoryLines(self.host, NAMESPACE)
        self._wire = Wire(self._lines, log, NAMESPACE)
        self._request("initialize", {})
        self._request("initialized", {})

    def describe(self) -> JsonObject:
        """Return its schemas, permissions and actions."""
        return self._request("worker.describe", {})["callables"][NAME]

    def call(self, payload: Mapping[str, Any] | None = None, envelope: Mapping[str, Any] | None = None) -> Any:
        """Return the result in its envelope. A read-only callable, such as Shu's `execute`, cannot write here either.

        Args:
            payload: The caller's parameters.
            envelope: The host's data about the call; for a native plugin, the fields of its context.

        Raises:
            PluginFault: it failed or refused; `error_code` and `data` are as on the wire.
        """
        self.host.effects = _READS if self._only_reads else None
        try:
            return self._request("worker.call", {"payload": dict(payload or {}), "envelope": dict(envelope or {})})
        finally:
            self.host.effects = None

    def act(
        self, action: str, args: Mapping[str, Any] | None = None, envelope: Mapping[str, Any] | None = None
    ) -> JsonObject:
        """Return the result of an action. Raises like `call`."""
        params = {"action": action, "args": dict(args or {}), "envelope": dict(envelope or {})}
        return self._request("worker.action", params)

    def _request(self, method: str, params: JsonObject) -> Any:
        request_params = {**params, "callable": NAME, "_call": "call-under-test"}
        if self._native:
            request_params["_context"] = params.get("envelope", {})
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": request_params}
        work = self._worker.serve(self._wire, message, self._worker.accept(self._wire, message))
        if not run_until_loop(work):
            import asyncio  # late: only async code needs it

            asyncio.run(work)
        output = self._lines.take_output()
        self.events = output.events
        return unwrap_result(output.answer)

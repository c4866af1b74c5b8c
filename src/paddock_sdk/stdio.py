"""A plugin that speaks JSON-RPC on its stdin and stdout: what an author declares, and every request to its handler.

Calls are handled one at a time, in the order in which they came. A handler may ask the host (`plugin.host`,
`plugin.storage`, `plugin.request`), tell how far it is (`plugin.progress`) and look whether it should stop
(`plugin.cancelled`). Only at these moments is anything read while a handler works; see `inbox.py` for what then happens
to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from paddock_sdk.answer import Answer
from paddock_sdk.call import ActiveCall, JsonObject
from paddock_sdk.coroutine_runner import Stream, is_pending, resolve_result, run
from paddock_sdk.faults import METHOD_NOT_FOUND, Cancelled, HostGone, PluginFault
from paddock_sdk.framing import take_stdio
from paddock_sdk.handlers import Handlers
from paddock_sdk.host import Host, declared_services
from paddock_sdk.lifecycle import HandshakeInfo, Lifecycle
from paddock_sdk.log import Log
from paddock_sdk.storage import Storage
from paddock_sdk.wire import Wire, split_params

H = TypeVar("H", bound=Callable[..., Any])
C = TypeVar("C", bound=Callable[[JsonObject], object])
E = TypeVar("E", bound=Callable[[], object])


class Plugin:
    """One plugin process.

    Args:
        name: As in the manifest; the host ends a plugin that answers to another name.
        version: As in the manifest.
        namespace: How the host's own methods are called: `paddock`, or `kaged` for a plugin with that manifest.
        notifications: What the plugin may announce.
        capabilities_used: What it uses of the capabilities that its manifest asks for.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        namespace: Literal["paddock", "kaged"] = "paddock",
        notifications: Iterable[str] = (),
        capabilities_used: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.version = version
        self.log = Log(name, os.environ.get(f"{namespace.upper()}_LOG_LEVEL", "info"))
        self.handlers = Handlers(name, namespace)
        self.storage = Storage(self.ask, namespace)
        self.host = Host(self.ask, declared_services(capabilities_used), self.log, namespace)
        self.namespace = namespace
        self._notifications = list(notifications)
        self._capabilities_used = list(capabilities_used)
        self._lifecycle = Lifecycle(self._handshake_info, self.log)
        self._on_shutdown: Callable[[], object] = lambda: None
        self._wire: Wire | None = None
        self._underway: ActiveCall | None = None  # the call that a handler is working on

    @property
    def config(self) -> Mapping[str, Any]:
        """The newest configuration that was accepted."""
        return self._lifecycle.config

    @property
    def projects(self) -> dict[str, JsonObject]:
        """The projects that use this plugin, each with its config."""
        return self._lifecycle.projects

    # --- what an author declares ---------------------------------------------------------------------------------

    def tool(self, handler: H) -> H:
        """Serve the tool that has the function's name; on the wire it is `<plugin>.<tool>`.

        The function takes `(params, context)`, or its parameters by name: then their types are its schema, and what
        does not fit them never reaches it.
        """
        return self.handlers.add_tool(handler)

    def method(self, name: str) -> Callable[[H], H]:
        """Serve a method, e.g. `presets.list`. The function is as for a tool."""
        return lambda handler: self.handlers.add_method(name, handler)

    def hook(self, name: str) -> Callable[[H], H]:
        """Be told of a moment in a session, e.g. `on_session_start`."""
        return lambda handler: self.handlers.add_hook(name, handler)

    def on_config(self, callback: C) -> C:
        """Be given every new configuration before it counts; raise ConfigInvalid to refuse it."""
        self._lifecycle.on_config = callback
        return callback

    def on_shutdown(self, callback: E) -> E:
        """Be called once before the process ends. If it fails, the process ends with 1."""
        self._on_shutdown = callback
        return callback

    def manifest_callables(self) -> JsonObject:
        """The tools and methods as the manifest writes them, with schemas where types say them."""
        return self.handlers.as_manifest()

    # --- what a handler may do -----------------------------------------------------------------------------------

    def notify(self, name: str, params: JsonObject | None = None) -> None:
        """Announce something to the host, which does not answer."""
        if name not in self._notifications:
            raise ValueError(f"{name!r} is not among the notifications of this plugin")
        if self._lifecycle.phase != "running":
            raise RuntimeError("nothing may be announced before the handshake is over")
        self._running().notify(name, params or {})

    def request(self, method: str, params: JsonObject) -> Any:
        """Ask the host for something and wait for the answer.

        Raises:
            HostRefused: it answered with an error.
            HostGone: it closed the pipe.
        """
        return self.ask(method, params).wait()

    def ask(self, method: str, params: JsonObject, **how: Any) -> Answer[Any]:
        """Ask the host for something; the answer can be awaited, or waited for later."""
        return self._running().ask(method, params, self._underway, **how)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever waits for this call how far it is. The host gives a call that moves on more time."""
        told = {"progress": done, "total": total, "message": message}
        self.event({"type": "progress", **{name: value for name, value in told.items() if value is not None}})
        self.cancelled()  # a look, so that pings are answered also in a handler that never asks

    def event(self, event: JsonObject) -> None:
        """Tell whoever waits for this call something before its result. Outside of the host it goes nowhere."""
        if self._wire is None:
            return
        if self._underway is None:
            raise RuntimeError("an event belongs to a call, and none is under way")
        self._wire.event(self._underway, event)

    def cancelled(self) -> bool:
        """Whether whoever called has given up. A handler that takes long asks now and then, and stops."""
        return self._wire is not None and self._wire.cancelled(self._underway)

    def check_cancelled(self) -> None:
        """Stop here if whoever called has given up.

        Raises:
            Cancelled: they have. Left uncaught, it answers the call.
        """
        if self.cancelled():
            raise Cancelled

    # --- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the host says shutdown or closes the pipe. Whatever happens to one call, the next is served."""
        self.serve(Wire(take_stdio(), self.log, self.namespace))

    def serve(self, wire: Wire) -> None:
        """The same on a wire that is there already."""
        self._wire = wire
        try:
            while (message := wire.inbox.next())["method"] != "shutdown":
                self.serve_one(wire, message)
        except HostGone:
            self.log.debug("the host closed the pipe")
        try:
            self._on_shutdown()
        except HostGone:
            pass
        except Exception as error:
            # What it should have kept may be lost: the exit code must say so.
            wire.fault_of("shutdown", error)
            raise SystemExit(1) from None

    def forget(self) -> None:
        """Be as before any handshake: for tests, which greet the same plugin many times."""
        on_config = self._lifecycle.on_config
        self._lifecycle = Lifecycle(self._handshake_info, self.log)
        self._lifecycle.on_config = on_config

    def serve_one(self, wire: Wire, message: JsonObject) -> None:
        """Run one request or notification, and answer it if it is a request.

        Raises:
            HostGone: nobody hears the answer.
        """
        self._wire = wire
        try:
            wire.answer(message, self._handle(wire, message))
        except Exception as error:
            wire.fail(message, error)
        finally:
            self._finish_call(wire)

    def _running(self) -> Wire:
        if self._wire is None:
            raise RuntimeError("the plugin is not running; call run()")
        return self._wire

    def _handle(self, wire: Wire, message: JsonObject) -> Any:
        method: str = message["method"]
        own, context, token = split_params(message)
        if self._lifecycle.serves(method):
            # Nobody hears events about the host's own requests.
            self._underway = ActiveCall(None, token)
            result = self._lifecycle.answer(method, own)
            wire.inbox.open = self._lifecycle.phase == "running"
            return result
        handler = self.handlers.get(method)
        if handler is None:
            raise PluginFault(f"there is no method {method[:128]!r}", code=METHOD_NOT_FOUND)
        underway = self._underway = ActiveCall(message.get("id"), token)
        self.log.request_id = context.request_id
        if underway.id is not None:
            wire.inbox.calls[underway.id] = underway
        result = handler.begin(own, context, host=self.host)
        if is_pending(result):
            result = run(resolve_result(result, Stream(self.event, lambda: wire.poll_cancelled(underway))))
        return handler.finish(result)

    def _finish_call(self, wire: Wire) -> None:
        if self._underway is not None and self._underway.id is not None:
            wire.inbox.calls.pop(self._underway.id, None)
        self._underway = None
        self.log.request_id = ""

    def _handshake_info(self) -> HandshakeInfo:
        serves = self.handlers
        return HandshakeInfo(
            self.name, self.version, serves.methods, serves.tools, self._notifications, self._capabilities_used
        )

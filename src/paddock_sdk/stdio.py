"""A plugin that speaks JSON-RPC on stdin and stdout: declaration of handlers, and dispatch of requests to them.

Calls are handled one at a time, in the order of their arrival. A handler may send requests to the host (`plugin.host`,
`plugin.storage`, `plugin.request`), report progress (`plugin.progress`) and check for cancellation
(`plugin.cancelled`). Messages are read only at these moments while a handler runs; `inbox.py` describes what happens to
them. An async handler runs on an event loop, which reads messages whenever the handler waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from paddock_sdk.answer import Answer
from paddock_sdk.call import ActiveCall, JsonObject
from paddock_sdk.coroutine_runner import Stream, is_pending, resolve_result, run_in_call
from paddock_sdk.faults import METHOD_NOT_FOUND, Cancelled, HostGone, PluginFault
from paddock_sdk.framing import take_stdio
from paddock_sdk.handlers import Handlers
from paddock_sdk.host import Host, declared_services
from paddock_sdk.lifecycle import HandshakeInfo, Lifecycle
from paddock_sdk.log import Log
from paddock_sdk.storage import Storage
from paddock_sdk.wire import Wire, split_params

if TYPE_CHECKING:
    from paddock_sdk.event_loop import CallLoop

H = TypeVar("H", bound=Callable[..., Any])
C = TypeVar("C", bound=Callable[[JsonObject], object])
E = TypeVar("E", bound=Callable[[], object])


class Plugin:
    """One plugin process.

    Args:
        name: As in the manifest; the host stops a plugin that reports another name.
        version: As in the manifest.
        namespace: The prefix of the host's own methods: `paddock`, or `kaged` for a plugin with that manifest.
        notifications: The notifications that the plugin may send.
        capabilities_used: The capabilities that it cannot do without: without them the host does not start it. It may
            use all that were granted, listed here or not.
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
        self._lifecycle = self._new_lifecycle()
        self._on_shutdown: Callable[[], object] = lambda: None
        self._wire: Wire | None = None
        self._active: ActiveCall | None = None  # the call in progress
        # The call that a coroutine belongs to: one that outlives its call does not speak for the next one.
        self._call_of_task: ContextVar[ActiveCall | None] = ContextVar("paddock_call", default=None)
        self._loop: CallLoop | None = None

    @property
    def config(self) -> Mapping[str, Any]:
        """The latest configuration that was accepted."""
        return self._lifecycle.config

    @property
    def projects(self) -> dict[str, JsonObject]:
        """The projects that use this plugin, each with its config."""
        return self._lifecycle.projects

    # --- declarations -----------------------------------------------------------------------------------------------

    def tool(self, handler: H) -> H:
        """Serve the tool with the function's name; on the wire it is `<plugin>.<tool>`.

        The function takes `(params, context)`, or its parameters by name. In the second form their types are its
        schema, and calls that do not match never reach it.
        """
        return self.handlers.add_tool(handler)

    def method(self, name: str) -> Callable[[H], H]:
        """Serve a method, e.g. `presets.list`. The function has the same forms as a tool's."""
        return lambda handler: self.handlers.add_method(name, handler)

    def hook(self, name: str) -> Callable[[H], H]:
        """Handle a session event, e.g. `on_session_start`."""
        return lambda handler: self.handlers.add_hook(name, handler)

    def on_config(self, callback: C) -> C:
        """Receive each new configuration before it takes effect; raise ConfigInvalid to refuse it."""
        self._lifecycle.on_config = callback
        return callback

    def on_shutdown(self, callback: E) -> E:
        """Run the callback once before the process ends. If it fails, the exit code is 1."""
        self._on_shutdown = callback
        return callback

    def manifest_callables(self) -> JsonObject:
        """Return the tools and methods in the manifest's format, with schemas where types define them."""
        return self.handlers.as_manifest()

    # --- for handlers ---------------------------------------------------------------------------------------------

    def notify(self, name: str, params: JsonObject | None = None) -> None:
        """Send a notification to the host, which does not answer."""
        if name not in self._notifications:
            raise ValueError(f"{name!r} is not among the notifications of this plugin")
        if self._lifecycle.phase != "running":
            raise RuntimeError("nothing may be announced before the handshake is over")
        self._running().notify(name, params or {})

    def request(self, method: str, params: JsonObject) -> Any:
        """Send a request to the host, and wait for its result.

        Raises:
            HostRefused: the host answered with an error.
            HostGone: the host closed the pipe.
        """
        return self.ask(method, params).wait()

    def ask(self, method: str, params: JsonObject, **options: Any) -> Answer[Any]:
        """Send a request to the host; its answer can be awaited, or waited for later."""
        return self._running().ask(method, params, self._current_call, **options)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller. The host extends the time of a call that makes progress."""
        fields = {"progress": done, "total": total, "message": message}
        self.event({"type": "progress", **{name: value for name, value in fields.items() if value is not None}})
        self.cancelled()  # reads messages, so that pings are answered even if the handler sends no requests

    def event(self, event: JsonObject) -> None:
        """Send the caller an event before the result. Without a host it is dropped."""
        if self._wire is None:
            return
        call = self._current_call
        if call is None:
            raise RuntimeError("an event belongs to a call, and none is under way")
        self._wire.event(call, event)

    def cancelled(self) -> bool:
        """Whether the caller has cancelled. A handler that runs long should check now and then, and stop."""
        return self._wire is not None and self._wire.cancelled(self._current_call)

    def check_cancelled(self) -> None:
        """Stop here if the caller has cancelled.

        Raises:
            Cancelled: the caller has cancelled. If uncaught, it answers the call.
        """
        if self.cancelled():
            raise Cancelled

    # --- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the host sends shutdown or closes the pipe. A failed call does not stop the loop."""
        self.serve(Wire(take_stdio(), self.log, self.namespace))

    def serve(self, wire: Wire) -> None:
        """Serve on an existing wire."""
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
            # Data that it should have saved may be lost: the exit code must show it.
            wire.fault_of("shutdown", error)
            raise SystemExit(1) from None
        finally:
            if self._loop is not None:
                self._loop.close()

    def forget(self) -> None:
        """Reset to the state before any handshake: for tests, which repeat it with the same plugin."""
        on_config = self._lifecycle.on_config
        self._lifecycle = self._new_lifecycle()
        self._lifecycle.on_config = on_config

    def serve_one(self, wire: Wire, message: JsonObject) -> None:
        """Run one request or notification, and answer it if it is a request.

        Raises:
            HostGone: the host no longer reads the answer.
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
        params, context, token = split_params(message)
        if self._lifecycle.serves(method):
            # Lifecycle requests have no caller who could receive events.
            self._active = ActiveCall(None, token)
            result = self._lifecycle.answer(method, params)
            if method == "initialize" and self._lifecycle.granted is not None:
                self.host.declare(declared_services(self._lifecycle.granted))
            wire.inbox.open = self._lifecycle.phase == "running"
            return result
        handler = self.handlers.get(method)
        if handler is None:
            raise PluginFault(f"there is no method {method[:128]!r}", code=METHOD_NOT_FOUND)
        active = self._active = ActiveCall(message.get("id"), token)
        self.log.request_id = context.request_id
        if active.id is not None:
            wire.inbox.calls[active.id] = active
        result = handler.begin(params, context, host=self.host)
        if is_pending(result):
            work = resolve_result(result, Stream(self.event, lambda: wire.poll_cancelled(active)))
            result = run_in_call(work, lambda rest: self._finish_on_loop(wire, active, rest))
        return handler.finish(result)

    def _finish_on_loop(self, wire: Wire, active: ActiveCall, work: Coroutine[Any, Any, Any]) -> Any:
        if self._loop is None:
            from paddock_sdk.event_loop import CallLoop  # late: only plugins that need a loop load asyncio

            self._loop = CallLoop()
        token = self._call_of_task.set(active)
        try:
            return self._loop.finish(wire, active, work)
        finally:
            self._call_of_task.reset(token)

    @property
    def _current_call(self) -> ActiveCall | None:
        return self._call_of_task.get() or self._active

    def _finish_call(self, wire: Wire) -> None:
        if self._active is not None and self._active.id is not None:
            wire.inbox.calls.pop(self._active.id, None)
        self._active = None
        self.log.request_id = ""

    def _new_lifecycle(self) -> Lifecycle:
        return Lifecycle(self._handshake_info, self.log, self.manifest_callables)

    def _handshake_info(self) -> HandshakeInfo:
        handlers = self.handlers
        return HandshakeInfo(
            self.name, self.version, handlers.methods, handlers.tools, self._notifications, self._capabilities_used
        )

"""A plugin that speaks JSON-RPC on its stdin and stdout: the handshake, and every request to its handler.

Calls are handled one at a time, in the order in which they came. A handler may ask the host (`plugin.storage`,
`plugin.request`), tell how far it is (`plugin.progress`) and look whether it should stop (`plugin.cancelled`). Only at
these moments is anything read while a handler works; see `inbox.py` for what then happens to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from types import GeneratorType
from typing import Any, Literal, TypeAlias, TypeVar, cast

from paddock_sdk.call import Context, JsonObject, Underway, take_context
from paddock_sdk.faults import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Cancelled,
    ConfigInvalid,
    HostGone,
    InvalidParams,
    NotInitialized,
    PluginFault,
)
from paddock_sdk.framing import Lines, take_stdio
from paddock_sdk.inbox import OK, Inbox
from paddock_sdk.log import Log
from paddock_sdk.message import result_of
from paddock_sdk.storage import Storage

API_VERSION = 1
FEATURES = ["call_tokens", "cancel", "events"]  # what this loop can do beyond the plain protocol

Handler: TypeAlias = Callable[[JsonObject, Context], Any]
Steps: TypeAlias = Generator[Any, None, Any]
H = TypeVar("H", bound=Handler)
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
        self.config: Mapping[str, Any] = {}
        self.projects: dict[str, JsonObject] = {}  # the projects that use this plugin, each with its config
        self.log = Log(name, os.environ.get(f"{namespace.upper()}_LOG_LEVEL", "info"))
        self.storage = Storage(self.request, namespace)
        self._namespace = namespace
        self._event_method = f"{namespace}.event"
        self._notifications = list(notifications)
        self._capabilities_used = list(capabilities_used)
        self._methods: list[str] = []
        self._handlers: dict[str, Handler] = {}  # by the name on the wire
        self._system: dict[str, Handler] = {
            "initialize": self._initialize,
            "initialized": self._initialized,
            "ping": lambda _params, _context: OK,
            "config.update": self._update_config,
            "projects.activated": self._activate_project,
            "projects.deactivated": self._deactivate_project,
            "system.rate_limited": self._rate_limited,
        }
        self._on_config: Callable[[JsonObject], object] = lambda _config: None
        self._on_shutdown: Callable[[], object] = lambda: None
        self._lines: Lines | None = None
        self._inbox: Inbox | None = None
        self._phase: Literal["new", "initializing", "running"] = "new"
        self._last_id = 0

    # --- what an author declares ---------------------------------------------------------------------------------

    def tool(self, handler: H) -> H:
        """Serve the tool that has the function's name; on the wire it is `<plugin>.<tool>`."""
        self._handlers[f"{self.name}.{handler.__name__}"] = handler
        return handler

    def method(self, name: str) -> Callable[[H], H]:
        """Serve a method, e.g. `presets.list`."""
        self._methods.append(name)
        return self._serving(name)

    def hook(self, name: str) -> Callable[[H], H]:
        """Be told of a moment in a session, e.g. `on_session_start`."""
        return self._serving(f"{self._namespace}.hook.{name}")

    def on_config(self, callback: C) -> C:
        """Be given every new configuration before it counts; raise ConfigInvalid to refuse it."""
        self._on_config = callback
        return callback

    def on_shutdown(self, callback: E) -> E:
        """Be called once before the process ends. If it fails, the process ends with 1."""
        self._on_shutdown = callback
        return callback

    def _serving(self, wire_name: str) -> Callable[[H], H]:
        def register(handler: H) -> H:
            self._handlers[wire_name] = handler
            return handler

        return register

    # --- what a handler may do -----------------------------------------------------------------------------------

    def notify(self, name: str, params: JsonObject | None = None) -> None:
        """Announce something to the host, which does not answer."""
        if name not in self._notifications:
            raise ValueError(f"{name!r} is not among the notifications of this plugin")
        if self._phase != "running":
            raise RuntimeError("nothing may be announced before the handshake is over")
        _, lines = self._running()
        lines.write({"jsonrpc": "2.0", "method": name, "params": params or {}})

    def request(self, method: str, params: JsonObject) -> Any:
        """Ask the host for something and wait for the answer.

        Raises:
            HostRefused: it answered with an error.
            HostGone: it closed the pipe.
        """
        inbox, lines = self._running()
        self._last_id += 1
        token = inbox.underway.token if inbox.underway else None
        named = params if token is None else {**params, "_call": token}
        lines.write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": named})
        return result_of(inbox.answer_to(self._last_id))

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever waits for this call how far it is. The host gives a call that moves on more time."""
        told = {"progress": done, "total": total, "message": message}
        self.event({"type": "progress", **{name: value for name, value in told.items() if value is not None}})
        self.cancelled()  # a look, so that pings are answered also in a handler that never asks

    def event(self, event: JsonObject) -> None:
        """Tell whoever waits for this call something before its result. Outside of the host it goes nowhere."""
        if self._inbox is None or self._lines is None:
            return
        underway = self._inbox.underway
        if underway is None:
            raise RuntimeError("an event belongs to a call, and none is under way")
        if underway.id is not None:
            told = {"id": underway.id, "event": event}
            self._lines.write({"jsonrpc": "2.0", "method": self._event_method, "params": told})

    def cancelled(self) -> bool:
        """Whether whoever called has given up. A handler that takes long asks now and then, and stops."""
        if self._inbox is None:
            return False
        self._inbox.look()
        return self._inbox.underway is not None and self._inbox.underway.cancelled

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
        self._lines = lines = take_stdio()
        self._inbox = inbox = Inbox(lines, self.log, f"{self._namespace}.cancel")
        try:
            while (message := inbox.next())["method"] != "shutdown":
                self._serve(inbox, lines, message)
        except HostGone:
            self.log.debug("the host closed the pipe")
        try:
            self._on_shutdown()
        except HostGone:
            pass
        except Exception as error:
            # What it should have kept may be lost: the exit code must say so.
            self._report("shutdown", error)
            raise SystemExit(1) from None

    def _running(self) -> tuple[Inbox, Lines]:
        if self._inbox is None or self._lines is None:
            raise RuntimeError("the plugin is not running; call run()")
        return self._inbox, self._lines

    def _serve(self, inbox: Inbox, lines: Lines, message: JsonObject) -> None:
        """Run one request or notification, and answer it if it is a request."""
        request_id = message.get("id")
        try:
            result = self._run_handler(inbox, message)
            if request_id is not None:
                lines.answer(request_id, result)
        except HostGone:
            raise
        except PluginFault as fault:
            if request_id is not None:
                lines.fail(request_id, fault)
        except Exception as error:
            # The one place where a handler's mistake is contained: the details are the author's, not the caller's.
            self._report(message["method"], error)
            if request_id is not None:
                kind = type(error).__name__
                lines.fail(request_id, PluginFault(f"the plugin failed ({kind})", code=INTERNAL_ERROR))
        finally:
            inbox.underway = None

    def _run_handler(self, inbox: Inbox, message: JsonObject) -> Any:
        method: str = message["method"]
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise InvalidParams("params must be an object")
        own = cast("JsonObject", params)
        context, token = take_context(own)
        if self._phase != "running" and not self._served_early(method):
            raise NotInitialized("the handshake is not over")
        for_author = method not in self._system
        handler = self._handlers.get(method) if for_author else self._system[method]
        if handler is None:
            raise PluginFault(f"there is no method {method[:128]!r}", code=METHOD_NOT_FOUND)
        # Nobody hears events about the host's own requests, and before the handshake is over one would be a breach.
        inbox.underway = Underway(message.get("id") if for_author else None, token)
        result = handler(own, context)
        return self._stream(cast("Steps", result)) if type(result) is GeneratorType else result

    def _served_early(self, method: str) -> bool:
        return method == "initialize" or (self._phase == "initializing" and method in self._system)

    def _stream(self, steps: Steps) -> Any:
        """The result of a handler that yields. What it yields goes out as it comes."""
        try:
            value = next(steps)
            while True:
                self.event({"type": "data", "data": value})
                # Raised at its own yield, so that the handler can clean up, or bring what it has to an end.
                value = steps.throw(Cancelled()) if self.cancelled() else next(steps)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def _initialize(self, params: JsonObject, _context: Context) -> JsonObject:
        if self._phase != "new":
            raise PluginFault("initialize was already answered", code=INVALID_REQUEST)
        if params.get("plugin_name", self.name) != self.name:
            raise InvalidParams(f"this is {self.name}, not {str(params['plugin_name'])[:64]}")
        self._phase = "initializing"
        return {
            "name": self.name,
            "version": self.version,
            "api_version": API_VERSION,
            "methods": self._methods,
            "notifications": self._notifications,
            "capabilities_used": self._capabilities_used,
            "features": FEATURES,
        }

    def _initialized(self, _params: JsonObject, _context: Context) -> None:
        inbox, _ = self._running()
        inbox.open = True
        self._phase = "running"

    def _update_config(self, params: JsonObject, _context: Context) -> JsonObject:
        config = params.get("config")
        if not isinstance(config, dict):
            raise ConfigInvalid("config must be an object")
        self._on_config(cast("JsonObject", config))
        self.config = cast("JsonObject", config)
        return OK

    def _activate_project(self, params: JsonObject, _context: Context) -> JsonObject:
        project, config = params.get("project"), params.get("config", {})
        if not isinstance(project, str) or not isinstance(config, dict):
            raise InvalidParams("project must be text and config an object")
        self.projects[project] = cast("JsonObject", config)
        return OK

    def _deactivate_project(self, params: JsonObject, _context: Context) -> JsonObject:
        self.projects.pop(str(params.get("project")), None)
        return OK

    def _rate_limited(self, params: JsonObject, _context: Context) -> JsonObject:
        self.log.warning("the host drops notifications: there are too many", limit=params.get("limit_per_second"))
        return OK

    def _report(self, method: str, error: Exception) -> None:
        import traceback  # late: only a failing plugin pays for it

        self.log.error("a handler failed", method=method, traceback="".join(traceback.format_exception(error)))

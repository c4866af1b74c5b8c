"""A plugin that speaks JSON-RPC on its stdin and stdout: the handshake, and every request to its handler.

Calls are handled one at a time, in the order in which they came. A handler may ask the host (`plugin.storage`,
`plugin.request`); what arrives while it waits for the answer is kept for later, except a ping, which is answered.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypeVar, cast

from paddock_sdk.call import Context, JsonObject, split
from paddock_sdk.faults import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ConfigInvalid,
    HostGone,
    HostRefused,
    InvalidParams,
    NotInitialized,
    PluginFault,
)
from paddock_sdk.framing import Lines, take_stdio
from paddock_sdk.log import Log
from paddock_sdk.storage import Storage

API_VERSION = 1
OK = {"status": "ok"}

Handler: TypeAlias = Callable[[JsonObject, Context], Any]
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
        self._notifications = list(notifications)
        self._capabilities_used = list(capabilities_used)
        self._methods: list[str] = []
        self._handlers: dict[str, Handler] = {}  # by the name on the wire
        self._system: dict[str, Handler] = {
            "ping": lambda _params, _context: OK,
            "config.update": self._update_config,
            "projects.activated": self._activate_project,
            "projects.deactivated": self._deactivate_project,
        }
        self._on_config: Callable[[JsonObject], object] = lambda _config: None
        self._on_shutdown: Callable[[], object] = lambda: None
        self._lines: Lines | None = None
        self._stash: deque[JsonObject] = deque()
        self._phase: Literal["new", "initializing", "running"] = "new"
        self._last_id = 0
        self._call_token: str | None = None

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
        """Be called once before the process ends."""
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
        self._wire.write({"jsonrpc": "2.0", "method": name, "params": params or {}})

    def request(self, method: str, params: JsonObject) -> Any:
        """Ask the host for something and wait for the answer.

        Raises:
            HostRefused: it answered with an error.
            HostGone: it closed the pipe.
        """
        self._last_id += 1
        token = {} if self._call_token is None else {"_call": self._call_token}
        self._wire.write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": {**params, **token}})
        while True:
            message = self._next()
            if "method" not in message:
                if message.get("id") == self._last_id:
                    return _result(message)
                self.log.warning("an answer to no question was ignored")
            elif message["method"] == "ping":
                self._serve(message)  # the host would take a plugin that waits for a dead one
            else:
                self._stash.append(message)

    # --- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the host says shutdown or closes the pipe. Whatever happens to one call, the next is served."""
        self._lines = take_stdio()
        try:
            while (message := self._stash.popleft() if self._stash else self._next()).get("method") != "shutdown":
                if "method" in message:
                    self._serve(message)
                else:
                    self.log.warning("an answer to no question was ignored")
        except HostGone:
            self.log.debug("the host closed the pipe")
        with suppress(HostGone):
            self._on_shutdown()

    @property
    def _wire(self) -> Lines:
        if self._lines is None:
            raise RuntimeError("the plugin is not running; call run()")
        return self._lines

    def _next(self) -> JsonObject:
        """The next sound message. Unsound ones are answered here, as far as they can be."""
        while True:
            try:
                message = self._wire.read()
            except PluginFault as fault:
                self._fail(None, fault)
                continue
            fields = cast("JsonObject", message) if isinstance(message, dict) else {}
            if _sound(fields):
                return fields
            if "result" in fields or "error" in fields:
                # Answering an answer could go back and forth for ever.
                self.log.warning("an unsound answer was ignored")
                continue
            fault = PluginFault("not a JSON-RPC 2.0 request (batches are not accepted)", code=INVALID_REQUEST)
            self._fail(fields["id"] if _is_id(fields.get("id")) else None, fault)

    def _serve(self, message: JsonObject) -> None:
        """Run one request or notification, and answer it if it is a request."""
        wants_answer = "id" in message
        waiting_token = self._call_token
        try:
            result = self._run_handler(message["method"], message.get("params", {}))
            if wants_answer:
                self._wire.write({"jsonrpc": "2.0", "id": message["id"], "result": result})
        except HostGone:
            raise
        except PluginFault as fault:
            if wants_answer:
                self._fail(message["id"], fault)
        except Exception as error:
            # The one place where a handler's mistake is contained: the details are the author's, not the caller's.
            self._report(message["method"], error)
            if wants_answer:
                kind = type(error).__name__
                self._fail(message["id"], PluginFault(f"the plugin failed ({kind})", code=INTERNAL_ERROR))
        finally:
            self._call_token = waiting_token

    def _run_handler(self, method: str, params: Any) -> Any:
        if not isinstance(params, dict):
            raise InvalidParams("params must be an object")
        own, context, token = split(cast("JsonObject", params))
        if method == "initialize":
            return self._initialize(own)
        if method == "initialized" and self._phase != "new":
            self._phase = "running"
            return None
        if self._phase == "new" or (self._phase == "initializing" and method not in self._system):
            raise NotInitialized("the handshake is not over")
        handler = self._system.get(method) or self._handlers.get(method)
        if handler is None:
            raise PluginFault(f"there is no method {method[:128]!r}", code=METHOD_NOT_FOUND)
        self._call_token = token
        return handler(own, context)

    def _initialize(self, params: JsonObject) -> JsonObject:
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
            "features": ["call_tokens"],
        }

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

    def _fail(self, request_id: Any, fault: PluginFault) -> None:
        try:
            self._wire.write({"jsonrpc": "2.0", "id": request_id, "error": fault.to_error()})
        except (TypeError, ValueError):  # its data cannot be sent; the code and the sentence can
            self._fail(request_id, PluginFault(fault.message[:1000], code=fault.error_code))

    def _report(self, method: str, error: Exception) -> None:
        import traceback  # late: only a failing plugin pays for it

        self.log.error("a handler failed", method=method, traceback="".join(traceback.format_exception(error)))


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _sound(message: JsonObject) -> bool:
    """Whether a message is a request, a notification or a response."""
    if message.get("jsonrpc") != "2.0" or ("id" in message and not _is_id(message["id"])):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    error = message.get("error")
    if error is None:
        return "id" in message and "result" in message
    return "id" in message and isinstance(error, dict) and isinstance(cast("JsonObject", error).get("code"), int)


def _result(response: JsonObject) -> Any:
    error = response.get("error")
    if error is None:
        return response["result"]
    raise HostRefused(str(error.get("message", "refused")), error.get("data"), code=error["code"])

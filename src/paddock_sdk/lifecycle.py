"""The host's lifecycle requests: handshake, configuration, projects, health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast

from paddock_sdk.call import JsonObject, string_items
from paddock_sdk.faults import INVALID_REQUEST, ConfigInvalid, InvalidParams, NotInitialized, PluginFault
from paddock_sdk.inbox import OK_RESULT
from paddock_sdk.log import Log

API_VERSION = 1
DESCRIBE_METHOD = "describe"
FEATURES = ["call_tokens", "cancel", "events"]  # optional protocol features that this SDK supports


class HandshakeInfo(NamedTuple):
    """The plugin's identity and offer, as sent in the handshake."""

    name: str
    version: str
    methods: Iterable[str] = ()
    tools: Iterable[str] | None = None  # None if the code does not list them
    notifications: Iterable[str] = ()
    capabilities_used: Iterable[str] = ()


class Lifecycle:
    """The phase of a plugin, and its current configuration, projects and grants.

    Args:
        handshake_info: Returns what the handshake says about the plugin.
        log: The destination of warnings.
        describe: Returns the tools and methods in the manifest's format; None if the host asks in another way.
    """

    def __init__(
        self, handshake_info: Callable[[], HandshakeInfo], log: Log, describe: Callable[[], JsonObject] | None = None
    ) -> None:
        self.phase: Literal["new", "initializing", "running"] = "new"
        self.config: Mapping[str, Any] = {}
        self.projects: dict[str, JsonObject] = {}  # the projects that use this plugin, each with its config
        self.on_config: Callable[[JsonObject], object] = lambda _config: None
        self.granted: list[str] | None = None  # the capabilities; None if the host does not tell them
        self._handshake_info = handshake_info
        self._log = log
        self._methods: dict[str, Callable[[JsonObject], Any]] = {
            "initialize": self._initialize,
            "initialized": self._initialized,
            "ping": lambda _params: OK_RESULT,
            "config.update": self._update_config,
            "projects.activated": self._activate_project,
            "projects.deactivated": self._deactivate_project,
            "system.rate_limited": self._rate_limited,
        }
        if describe is not None:
            self._methods[DESCRIBE_METHOD] = lambda _params: self._describe(describe)

    def serves(self, method: str) -> bool:
        """Whether a method is a lifecycle request, and not one for a handler.

        Raises:
            NotInitialized: no such method may be called yet.
        """
        is_lifecycle = method in self._methods
        if is_lifecycle and method == DESCRIBE_METHOD:
            return True
        if self.phase != "running" and not (method == "initialize" or (is_lifecycle and self.phase == "initializing")):
            raise NotInitialized("the handshake is not over")
        return is_lifecycle

    def answer(self, method: str, params: JsonObject) -> Any:
        return self._methods[method](params)

    def _initialize(self, params: JsonObject) -> JsonObject:
        info = self._handshake_info()
        if self.phase != "new":
            raise PluginFault("initialize was already answered", code=INVALID_REQUEST)
        if params.get("plugin_name", info.name) != info.name:
            raise InvalidParams(f"this is {info.name}, not {str(params['plugin_name'])[:64]}")
        self.phase = "initializing"
        granted = params.get("capabilities")
        self.granted = string_items(cast("Any", granted)) if isinstance(granted, list) else None
        tools = {} if info.tools is None else {"tools": list(info.tools)}
        return {
            "name": info.name,
            "version": info.version,
            "api_version": API_VERSION,
            "methods": list(info.methods),
            **tools,
            "notifications": list(info.notifications),
            "capabilities_used": list(info.capabilities_used),
            "features": FEATURES,
        }

    def _describe(self, describe: Callable[[], JsonObject]) -> JsonObject:
        """Answer without a handshake, so that a program can be asked whose manifest does not fit it yet."""
        info = self._handshake_info()
        try:
            return {"name": info.name, "version": info.version, **describe()}
        except TypeError as error:
            raise PluginFault(str(error), {"code": "not_describable"}) from None

    def _initialized(self, _params: JsonObject) -> None:
        self.phase = "running"

    def _update_config(self, params: JsonObject) -> JsonObject:
        config = params.get("config")
        if not isinstance(config, dict):
            raise ConfigInvalid("config must be an object")
        self.on_config(cast("JsonObject", config))
        self.config = cast("JsonObject", config)
        return OK_RESULT

    def _activate_project(self, params: JsonObject) -> JsonObject:
        project, config = params.get("project"), params.get("config", {})
        if not isinstance(project, str) or not isinstance(config, dict):
            raise InvalidParams("project must be text and config an object")
        self.projects[project] = cast("JsonObject", config)
        return OK_RESULT

    def _deactivate_project(self, params: JsonObject) -> JsonObject:
        self.projects.pop(str(params.get("project")), None)
        return OK_RESULT

    def _rate_limited(self, params: JsonObject) -> JsonObject:
        self._log.warning("the host drops notifications: there are too many", limit=params.get("limit_per_second"))
        return OK_RESULT

"""The requests of the host's own over the life of a plugin: handshake, configuration, projects, health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import INVALID_REQUEST, ConfigInvalid, InvalidParams, NotInitialized, PluginFault
from paddock_sdk.inbox import OK_RESULT
from paddock_sdk.log import Log

API_VERSION = 1
FEATURES = ["call_tokens", "cancel", "events"]  # what this SDK can do beyond the plain protocol


class HandshakeInfo(NamedTuple):
    """Who the plugin is and what it offers, as its answer to the handshake says."""

    name: str
    version: str
    methods: Iterable[str] = ()
    tools: Iterable[str] | None = None  # None where the code that serves them does not say which
    notifications: Iterable[str] = ()
    capabilities_used: Iterable[str] = ()


class Lifecycle:
    """Where a plugin is between its handshake and its end, and what the host has told it on the way."""

    def __init__(self, offer: Callable[[], HandshakeInfo], log: Log) -> None:
        self.phase: Literal["new", "initializing", "running"] = "new"
        self.config: Mapping[str, Any] = {}
        self.projects: dict[str, JsonObject] = {}  # the projects that use this plugin, each with its config
        self.on_config: Callable[[JsonObject], object] = lambda _config: None
        self._offer = offer
        self._log = log
        self._answers: dict[str, Callable[[JsonObject], Any]] = {
            "initialize": self._initialize,
            "initialized": self._initialized,
            "ping": lambda _params: OK_RESULT,
            "config.update": self._update_config,
            "projects.activated": self._activate_project,
            "projects.deactivated": self._deactivate_project,
            "system.rate_limited": self._rate_limited,
        }

    def serves(self, method: str) -> bool:
        """Whether a method is the host's own affair and no handler's.

        Raises:
            NotInitialized: it may not be called yet, whosever it is.
        """
        own = method in self._answers
        if self.phase != "running" and not (method == "initialize" or (own and self.phase == "initializing")):
            raise NotInitialized("the handshake is not over")
        return own

    def answer(self, method: str, params: JsonObject) -> Any:
        return self._answers[method](params)

    def _initialize(self, params: JsonObject) -> JsonObject:
        offer = self._offer()
        if self.phase != "new":
            raise PluginFault("initialize was already answered", code=INVALID_REQUEST)
        if params.get("plugin_name", offer.name) != offer.name:
            raise InvalidParams(f"this is {offer.name}, not {str(params['plugin_name'])[:64]}")
        self.phase = "initializing"
        tools = {} if offer.tools is None else {"tools": list(offer.tools)}
        return {
            "name": offer.name,
            "version": offer.version,
            "api_version": API_VERSION,
            "methods": list(offer.methods),
            **tools,
            "notifications": list(offer.notifications),
            "capabilities_used": list(offer.capabilities_used),
            "features": FEATURES,
        }

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

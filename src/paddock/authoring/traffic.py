"""What goes over a plugin's wire, in words: which call it is, what came of it, and how long that took. No I/O.

One `Traffic` listens to one process, because ids mean something in one conversation only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from paddock.config.plugin_fields import declared_fields
from paddock.core.clock import Clock
from paddock.manifest.model import Manifest

MASK = "•••"
HOST_PREFIXES = ("paddock.", "kaged.")
EVENT_METHODS = frozenset(f"{host}event" for host in HOST_PREFIXES)
_HIDDEN_METHODS = frozenset({"worker.describe"})  # the host's own affairs with the worker
_SECRET_METHODS = frozenset({"secrets.get"})  # whose answers nobody should read over a shoulder
_CALL_METHODS = frozenset({"worker.call", "worker.action", "tools/call"})
_MAX_PENDING = 4_096  # how many unanswered requests are remembered

TrafficKind = Literal[
    "call", "request", "result", "error", "notification", "event", "asks", "answers", "refuses", "noise"
]


@dataclass(frozen=True, slots=True)
class TrafficMessage:
    """One line of the wire.

    Attributes:
        outward: From the host to the plugin.
        kind: What it is, as seen by the host; `asks`, `answers` and `refuses` are the plugin's own requests.
        name: The callable, the method, or the method that is answered.
        value: Parameters, result or error; what only the host and the SDK need is left out.
        milliseconds: Of an answer: since its request.
    """

    outward: bool
    kind: TrafficKind
    name: str
    value: Any = None
    milliseconds: float | None = None

    def to_value(self) -> dict[str, Any]:
        told: dict[str, Any] = {"to": "plugin" if self.outward else "host", "kind": self.kind, "name": self.name}
        told["value"] = self.value
        return told if self.milliseconds is None else {**told, "ms": self.milliseconds}


@dataclass(slots=True)
class TrafficDecoder:
    """Turns lines into exchanges; see `Tap`.

    Args:
        plugin: Its name, which is left out of the names of its tools.
        secrets: Fields of its configuration whose values are not shown.
        tell: Told of each exchange.
        clock: Measures.
    """

    plugin: str
    secrets: frozenset[str]
    on_message: Callable[[TrafficMessage], None]
    clock: Clock
    _host_requests: dict[Any, tuple[str, float]] = field(default_factory=dict[Any, tuple[str, float]])
    _plugin_requests: dict[Any, tuple[str, float]] = field(default_factory=dict[Any, tuple[str, float]])

    def sent(self, frame: bytes) -> None:
        self._decode(frame, outward=True)

    def received(self, frame: bytes) -> None:
        self._decode(frame, outward=False)

    def _decode(self, frame: bytes, *, outward: bool) -> None:
        message = _parse_frame(frame)
        if message is None:
            self.on_message(TrafficMessage(outward, "noise", "", frame.decode("utf-8", "replace").rstrip("\n")))
        elif isinstance(message.get("method"), str):
            self._on_request(message, outward=outward)
        else:
            self._on_response(message, outward=outward)

    def _on_request(self, message: Mapping[str, Any], *, outward: bool) -> None:
        method = str(message["method"])
        params = cast("dict[str, Any]", message.get("params") or {})
        name, value = self._display_name_and_value(method, params if isinstance(message.get("params"), dict) else {})
        if "id" not in message:
            if not outward and method in EVENT_METHODS:
                of, _ = self._host_requests.get(_request_key(params.get("id")), ("", 0.0))
                self.on_message(TrafficMessage(outward, "event", of, params.get("event")))
            else:
                self.on_message(TrafficMessage(outward, "notification", name, value))
            return
        asked = self._host_requests if outward else self._plugin_requests
        if len(asked) < _MAX_PENDING:
            asked[_request_key(message["id"])] = (name, self.clock.monotonic())
        if method in _HIDDEN_METHODS:
            return
        call = outward and (method in _CALL_METHODS or method.startswith(f"{self.plugin}."))
        kind: TrafficKind = "call" if call else "request" if outward else "asks"
        self.on_message(TrafficMessage(outward, kind, name, value))

    def _on_response(self, message: Mapping[str, Any], *, outward: bool) -> None:
        asked = self._plugin_requests if outward else self._host_requests
        now = self.clock.monotonic()
        name, began = asked.pop(_request_key(message.get("id")), ("", now))
        took = round((now - began) * 1000, 1)
        if name in _HIDDEN_METHODS and "error" not in message:
            return
        failed = message.get("error") is not None
        kind: TrafficKind = ("refuses" if failed else "answers") if outward else ("error" if failed else "result")
        value = message["error"] if failed else message.get("result")
        if kind == "answers" and name in _SECRET_METHODS:
            value = mask_secrets(value, ("value",))
        self.on_message(TrafficMessage(outward, kind, name, value, took))

    def _display_name_and_value(self, method: str, params: Mapping[str, Any]) -> tuple[str, Any]:
        own = {name: value for name, value in params.items() if name not in ("_context", "_call", "_meta")}
        match method:
            case "worker.call" | "worker.action":
                action = f" {own['action']}" if "action" in own else ""
                return f"{own.get('callable')}{action}", own.get("payload", own.get("args"))
            case "tools/call":
                return str(own.get("name")), own.get("arguments")
            case "config.update":
                return method, {"config": mask_secrets(own.get("config"), self.secrets)}
            case _:
                host = next((host for host in HOST_PREFIXES if method.startswith(host)), "")
                return method.removeprefix(host).removeprefix(f"{self.plugin}."), own


def mask_secrets(config: Any, secrets: Iterable[str]) -> Any:
    """A configuration without what nobody should read over a shoulder."""
    if not isinstance(config, dict):
        return config
    hidden = frozenset(secrets)
    return {name: MASK if name in hidden else value for name, value in cast("dict[str, Any]", config).items()}


def _parse_frame(frame: bytes) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _request_key(identifier: Any) -> Any:
    return identifier if isinstance(identifier, str | int | float) else repr(identifier)


# One event, as a machine reads it; `event` says which it is.
EmitDevEvent: TypeAlias = Callable[[dict[str, Any]], None]


class DevEventReporter:
    """The workshop's `Audience`, and who taps its wires.

    Attributes:
        manifest: Of the version that was loaded last, or is being loaded.
        shows_traffic, shows_log: What is told of; may change at any time.
    """

    def __init__(self, manifest: Manifest, tell: EmitDevEvent, clock: Clock, *, shows_traffic: bool = True) -> None:
        self.manifest = manifest
        self.shows_traffic = shows_traffic
        self.shows_log = True
        self.emit = tell
        self._clock = clock

    def new_decoder(self) -> TrafficDecoder:
        """A listener for one process."""
        return TrafficDecoder(self.manifest.name, secret_fields(self.manifest), self._on_traffic, self._clock)

    def _on_traffic(self, exchange: TrafficMessage) -> None:
        if self.shows_traffic:
            self.emit({"event": "traffic", **exchange.to_value()})

    def logged(self, line: str) -> None:
        if self.shows_log:
            self.emit({"event": "log", "line": line})

    def announced(self, method: str, params: Mapping[str, Any]) -> None:
        if not self.shows_traffic:  # where it is shown, it was seen there
            self.emit({"event": "notification", "name": method, "params": dict(params)})

    def ended(self, reason: str, hint: str) -> None:
        self.emit({"event": "ended", "reason": reason, "hint": hint})


def secret_fields(manifest: Manifest) -> frozenset[str]:
    """The fields of its configuration that are secrets."""
    declared = (*declared_fields(manifest.config_schema), *declared_fields(manifest.system_config_schema))
    return frozenset(one.name for one in declared if one.secret)

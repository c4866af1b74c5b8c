"""Decoding of a plugin's protocol traffic for display: which call, its result, and how long it took. No I/O.

One `TrafficDecoder` listens to one process, because request ids are only unique within one connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, field

from paddock.config.plugin_fields import declared_fields
from paddock.core.clock import Clock
from paddock.manifest.model import Manifest

MASK = "•••"
HOST_PREFIXES = ("paddock.", "kaged.")
EVENT_METHODS = frozenset(f"{host}event" for host in HOST_PREFIXES)
_HIDDEN_METHODS = frozenset({"worker.describe"})  # internal between the host and the worker
_SECRET_METHODS = frozenset({"secrets.get"})  # their results must not appear on a screen
_CALL_METHODS = frozenset({"worker.call", "worker.action", "tools/call"})
_MAX_PENDING = 4_096  # remembered unanswered requests

TrafficKind = Literal[
    "call", "request", "result", "error", "notification", "event", "asks", "answers", "refuses", "noise"
]


class TrafficMessage(Struct, frozen=True):
    """One message of the protocol.

    Attributes:
        outward: From the host to the plugin.
        kind: The kind as seen by the host; `asks`, `answers` and `refuses` are about the plugin's own requests.
        name: The callable, the method, or the method that is responded to.
        value: Parameters, result or error, without what only the host and the SDK need.
        milliseconds: Of a response: since its request.
    """

    outward: bool
    kind: TrafficKind
    name: str
    value: Any = None
    milliseconds: float | None = None

    def to_value(self) -> dict[str, Any]:
        value: dict[str, Any] = {"to": "plugin" if self.outward else "host", "kind": self.kind, "name": self.name}
        value["value"] = self.value
        return value if self.milliseconds is None else {**value, "ms": self.milliseconds}


class TrafficDecoder(Struct):
    """Turns frames into traffic messages; the `TrafficTap` of one process.

    Args:
        plugin: The plugin's name, which is omitted from the names of its tools.
        secrets: Configuration fields whose values are masked.
        on_message: Called with each message.
        clock: Measures durations.
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
                call_name, _ = self._host_requests.get(_request_key(params.get("id")), ("", 0.0))
                self.on_message(TrafficMessage(outward, "event", call_name, params.get("event")))
            else:
                self.on_message(TrafficMessage(outward, "notification", name, value))
            return
        pending = self._host_requests if outward else self._plugin_requests
        if len(pending) < _MAX_PENDING:
            pending[_request_key(message["id"])] = (name, self.clock.monotonic())
        if method in _HIDDEN_METHODS:
            return
        is_call = outward and (method in _CALL_METHODS or method.startswith(f"{self.plugin}."))
        kind: TrafficKind = "call" if is_call else "request" if outward else "asks"
        self.on_message(TrafficMessage(outward, kind, name, value))

    def _on_response(self, message: Mapping[str, Any], *, outward: bool) -> None:
        pending = self._plugin_requests if outward else self._host_requests
        now = self.clock.monotonic()
        name, started = pending.pop(_request_key(message.get("id")), ("", now))
        duration_ms = round((now - started) * 1000, 1)
        if name in _HIDDEN_METHODS and "error" not in message:
            return
        failed = message.get("error") is not None
        kind: TrafficKind = ("refuses" if failed else "answers") if outward else ("error" if failed else "result")
        value = message["error"] if failed else message.get("result")
        if kind == "answers" and name in _SECRET_METHODS:
            value = mask_secrets(value, ("value",))
        self.on_message(TrafficMessage(outward, kind, name, value, duration_ms))

    def _display_name_and_value(self, method: str, params: Mapping[str, Any]) -> tuple[str, Any]:
        visible = {name: value for name, value in params.items() if name not in ("_context", "_call", "_meta")}
        match method:
            case "worker.call" | "worker.action":
                action = f" {visible['action']}" if "action" in visible else ""
                return f"{visible.get('callable')}{action}", visible.get("payload", visible.get("args"))
            case "tools/call":
                return str(visible.get("name")), visible.get("arguments")
            case "config.update":
                return method, {"config": mask_secrets(visible.get("config"), self.secrets)}
            case _:
                prefix = next((prefix for prefix in HOST_PREFIXES if method.startswith(prefix)), "")
                return method.removeprefix(prefix).removeprefix(f"{self.plugin}."), visible


def mask_secrets(config: Any, secrets: Iterable[str]) -> Any:
    """Return the configuration with its secrets masked."""
    if not isinstance(config, dict):
        return config
    hidden = frozenset(secrets)
    return {name: MASK if name in hidden else value for name, value in cast("dict[str, Any]", config).items()}


def _parse_frame(frame: bytes) -> dict[str, Any] | None:
    try:
        message: Any = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", message) if isinstance(message, dict) else None


def _request_key(identifier: Any) -> Any:
    return identifier if isinstance(identifier, str | int | float) else repr(identifier)


# Emits one event as JSON data; its field `event` names its type.
EmitDevEvent: TypeAlias = Callable[[dict[str, Any]], None]


class DevEventReporter:
    """Reports the dev host's events and the traffic of its plugin processes.

    Attributes:
        manifest: Of the version that was loaded last, or is being loaded.
        shows_traffic, shows_log: What is reported.
    """

    def __init__(self, manifest: Manifest, emit: EmitDevEvent, clock: Clock, *, shows_traffic: bool = True) -> None:
        self.manifest = manifest
        self.shows_traffic = shows_traffic
        self.shows_log = True
        self.emit = emit
        self._clock = clock

    def toggle_traffic(self) -> bool:
        """Show the traffic, or no longer; returns which."""
        self.shows_traffic = not self.shows_traffic
        return self.shows_traffic

    def toggle_log(self) -> bool:
        """Show the log, or no longer; returns which."""
        self.shows_log = not self.shows_log
        return self.shows_log

    def new_decoder(self) -> TrafficDecoder:
        """Return a decoder for one process."""
        return TrafficDecoder(self.manifest.name, secret_fields(self.manifest), self._on_traffic, self._clock)

    def _on_traffic(self, message: TrafficMessage) -> None:
        if self.shows_traffic:
            self.emit({"event": "traffic", **message.to_value()})

    def logged(self, line: str) -> None:
        if self.shows_log:
            self.emit({"event": "log", "line": line})

    def announced(self, method: str, params: Mapping[str, Any]) -> None:
        if not self.shows_traffic:  # otherwise it is part of the traffic
            self.emit({"event": "notification", "name": method, "params": dict(params)})

    def ended(self, reason: str, hint: str) -> None:
        self.emit({"event": "ended", "reason": reason, "hint": hint})


def secret_fields(manifest: Manifest) -> frozenset[str]:
    """Return the secret fields of the plugin's configuration."""
    declared = (*declared_fields(manifest.config_schema), *declared_fields(manifest.system_config_schema))
    return frozenset(item.name for item in declared if item.secret)

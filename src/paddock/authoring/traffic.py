"""What goes over a plugin's wire, in words: which call it is, what came of it, and how long that took. No I/O.

One `Traffic` listens to one process, because ids mean something in one conversation only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from paddock.core.clock import Clock

MASK = "•••"
HOSTS = ("paddock.", "kaged.")
EVENTS = frozenset(f"{host}event" for host in HOSTS)
_SILENT = frozenset({"worker.describe"})  # the host's own affairs with the worker
_HIDING = frozenset({"secrets.get"})  # whose answers nobody should read over a shoulder
_CALLS = frozenset({"worker.call", "worker.action", "tools/call"})
_OPEN = 4_096  # how many unanswered requests are remembered

Kind = Literal["call", "request", "result", "error", "notification", "event", "asks", "answers", "refuses", "noise"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One line of the wire.

    Attributes:
        outward: From the host to the plugin.
        kind: What it is, as seen by the host; `asks`, `answers` and `refuses` are the plugin's own requests.
        name: The callable, the method, or the method that is answered.
        value: Parameters, result or error; what only the host and the SDK need is left out.
        milliseconds: Of an answer: since its request.
    """

    outward: bool
    kind: Kind
    name: str
    value: Any = None
    milliseconds: float | None = None

    def to_value(self) -> dict[str, Any]:
        told: dict[str, Any] = {"to": "plugin" if self.outward else "host", "kind": self.kind, "name": self.name}
        told["value"] = self.value
        return told if self.milliseconds is None else {**told, "ms": self.milliseconds}


@dataclass(slots=True)
class Traffic:
    """Turns lines into exchanges; see `Tap`.

    Args:
        plugin: Its name, which is left out of the names of its tools.
        secrets: Fields of its configuration whose values are not shown.
        tell: Told of each exchange.
        clock: Measures.
    """

    plugin: str
    secrets: frozenset[str]
    tell: Callable[[Exchange], None]
    clock: Clock
    _ours: dict[Any, tuple[str, float]] = field(default_factory=dict[Any, tuple[str, float]])
    _theirs: dict[Any, tuple[str, float]] = field(default_factory=dict[Any, tuple[str, float]])

    def sent(self, frame: bytes) -> None:
        self._pass(frame, outward=True)

    def received(self, frame: bytes) -> None:
        self._pass(frame, outward=False)

    def _pass(self, frame: bytes, *, outward: bool) -> None:
        message = _read(frame)
        if message is None:
            self.tell(Exchange(outward, "noise", "", frame.decode("utf-8", "replace").rstrip("\n")))
        elif isinstance(message.get("method"), str):
            self._asked(message, outward=outward)
        else:
            self._answered(message, outward=outward)

    def _asked(self, message: Mapping[str, Any], *, outward: bool) -> None:
        method = str(message["method"])
        params = cast("dict[str, Any]", message.get("params") or {})
        name, value = self._plainly(method, params if isinstance(message.get("params"), dict) else {})
        if "id" not in message:
            if not outward and method in EVENTS:
                of, _ = self._ours.get(_key(params.get("id")), ("", 0.0))
                self.tell(Exchange(outward, "event", of, params.get("event")))
            else:
                self.tell(Exchange(outward, "notification", name, value))
            return
        asked = self._ours if outward else self._theirs
        if len(asked) < _OPEN:
            asked[_key(message["id"])] = (name, self.clock.monotonic())
        if method in _SILENT:
            return
        call = outward and (method in _CALLS or method.startswith(f"{self.plugin}."))
        kind: Kind = "call" if call else "request" if outward else "asks"
        self.tell(Exchange(outward, kind, name, value))

    def _answered(self, message: Mapping[str, Any], *, outward: bool) -> None:
        asked = self._theirs if outward else self._ours
        now = self.clock.monotonic()
        name, began = asked.pop(_key(message.get("id")), ("", now))
        took = round((now - began) * 1000, 1)
        if name in _SILENT and "error" not in message:
            return
        failed = message.get("error") is not None
        kind: Kind = ("refuses" if failed else "answers") if outward else ("error" if failed else "result")
        value = message["error"] if failed else message.get("result")
        if kind == "answers" and name in _HIDING:
            value = masked(value, ("value",))
        self.tell(Exchange(outward, kind, name, value, took))

    def _plainly(self, method: str, params: Mapping[str, Any]) -> tuple[str, Any]:
        own = {name: value for name, value in params.items() if name not in ("_context", "_call", "_meta")}
        match method:
            case "worker.call" | "worker.action":
                action = f" {own['action']}" if "action" in own else ""
                return f"{own.get('callable')}{action}", own.get("payload", own.get("args"))
            case "tools/call":
                return str(own.get("name")), own.get("arguments")
            case "config.update":
                return method, {"config": masked(own.get("config"), self.secrets)}
            case _:
                host = next((host for host in HOSTS if method.startswith(host)), "")
                return method.removeprefix(host).removeprefix(f"{self.plugin}."), own


def masked(config: Any, secrets: Iterable[str]) -> Any:
    """A configuration without what nobody should read over a shoulder."""
    if not isinstance(config, dict):
        return config
    hidden = frozenset(secrets)
    return {name: MASK if name in hidden else value for name, value in cast("dict[str, Any]", config).items()}


def _read(frame: bytes) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _key(identifier: Any) -> Any:
    return identifier if isinstance(identifier, str | int | float) else repr(identifier)

"""MCP over HTTP, spoken by hand: every header and every byte is the test's own."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fixtures.commands import PATIENCE
from fixtures.daemons import Daemon, LocalConnection

STATELESS = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
EITHER = "application/json, text/event-stream"
FORMS = {"elicitation": {"form": {}, "url": {}}}


@dataclass(frozen=True, slots=True)
class Heard:
    """A whole response: its status, its headers, and the messages in it."""

    status: int
    headers: dict[str, str]
    messages: list[Any]
    raw: bytes = b""

    @property
    def message(self) -> Any:
        """The only message, or the last of a stream."""
        return self.messages[-1]

    @property
    def result(self) -> Any:
        return self.message["result"]

    @property
    def error(self) -> Any:
        return self.message["error"]

    @property
    def streamed(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"


def send(served: Daemon, method: str, body: Any = None, where: str = "/mcp", **headers: str) -> Heard:
    """One HTTP request; `body` is sent as JSON unless it is bytes."""
    with _asked(served, method, body, where, headers) as response:
        raw = response.read()
        told = {name.lower(): value for name, value in response.getheaders()}
    events = told.get("content-type") == "text/event-stream"
    messages = [one["data"] for one in _events(iter(raw.splitlines()))] if events else [json.loads(raw)] if raw else []
    return Heard(response.status, told, [one for one in messages if one is not None], raw)


@contextmanager
def listening(
    served: Daemon, method: str, body: Any = None, where: str = "/mcp", **headers: str
) -> Generator[Iterator[Any], None, None]:
    """The events of a stream as they come, each with its `id` and `data`; the connection is cut with the block."""
    with _asked(served, method, body, where, headers) as response:
        assert response.getheader("content-type") == "text/event-stream", response.read()
        yield _events(iter(response.readline, b""))


@contextmanager
def _asked(
    served: Daemon, method: str, body: Any, where: str, headers: dict[str, str]
) -> Generator[http.client.HTTPResponse, None, None]:
    connection = LocalConnection(served.socket)
    try:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        told = {"accept": EITHER} | ({"content-type": "application/json"} if body is not None else {})
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, where, sent, told)
        yield connection.getresponse()
    finally:
        connection.close()


def _events(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    deadline = time.monotonic() + PATIENCE
    for line in lines:
        assert time.monotonic() < deadline, "nothing but signs of life"
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "data" or name == "data:":
            event["data"] = value if event.get("event") == "endpoint" else json.loads(value) if value else None
        elif name and not line.startswith(b":"):
            event[name] = value
        elif not name and "data" in event:
            yield event
            event = {}


def asking(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    """A request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def telling(method: str, **params: Any) -> dict[str, Any]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def calling(name: str, number: Any = 1, *, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    return asking("tools/call", number, name=name, arguments=arguments, **({"_meta": meta} if meta else {}))


@dataclass
class Client:
    """A client that has shaken hands."""

    served: Daemon
    revision: str = "2025-11-25"
    capabilities: dict[str, Any] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    session: str = ""

    def __post_init__(self) -> None:
        about = {"name": "by hand", "version": "1"}
        greeted = send(
            self.served,
            "POST",
            asking("initialize", protocolVersion=self.revision, capabilities=self.capabilities, clientInfo=about),
            **self.more,
        )
        assert greeted.status == 200, greeted
        self.session = greeted.headers["mcp-session-id"]
        self.greeting = greeted.result
        assert self.post(telling("notifications/initialized")).status == 202

    @property
    def headers(self) -> dict[str, str]:
        return {"mcp-session-id": self.session, "mcp-protocol-version": self.revision, **self.more}

    def post(self, message: Any, **headers: str) -> Heard:
        return send(self.served, "POST", message, **self.headers, **headers)

    def ask(self, method: str, number: Any = 1, **params: Any) -> Heard:
        return self.post(asking(method, number, **params))

    def call(self, name: str, number: Any = 1, *, meta: dict[str, Any] | None = None, **arguments: Any) -> Heard:
        return self.post(calling(name, number, meta=meta, **arguments))

    @contextmanager
    def posting(self, message: Any, **headers: str) -> Generator[Iterator[Any], None, None]:
        with listening(self.served, "POST", message, **self.headers, **headers) as events:
            yield events

    @contextmanager
    def following(self, **headers: str) -> Generator[Iterator[Any], None, None]:
        with listening(self.served, "GET", None, **self.headers, **headers) as events:
            yield events


def alone(
    served: Daemon,
    message: dict[str, Any],
    capabilities: dict[str, Any] | None = None,
    level: str | None = None,
    **headers: str,
) -> Heard:
    """A request that stands for itself, with the headers that belong to it."""
    return send(served, "POST", stamped(message, capabilities, level), **(headers_of(message) | headers))


def stamped(
    message: dict[str, Any], capabilities: dict[str, Any] | None = None, level: str | None = None
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    if level is not None:
        told["io.modelcontextprotocol/logLevel"] = level
    params = message["params"]
    return {**message, "params": {**params, "_meta": {**params.get("_meta", {}), **told}}}


def headers_of(message: dict[str, Any]) -> dict[str, str]:
    named = message["params"].get("name") or message["params"].get("uri")
    told = {"mcp-protocol-version": STATELESS, "mcp-method": message["method"]}
    return told | ({"mcp-name": named} if named else {})

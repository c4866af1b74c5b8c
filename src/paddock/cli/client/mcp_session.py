"""The bridge's session with the daemon's `/mcp`, and its renewal after the daemon was restarted."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import orjson

from paddock.net.http_client import ClientResponse, HttpClient, HttpConnectionLost, HttpOrigin, ResponseTooLarge
from paddock.rpc.mcp.http_headers import McpRequestHeaders
from paddock.rpc.message import MAX_FRAME_BYTES
from paddock.web.daemon_address import socket_address

EVENT_STREAM_TYPE: Final = "text/event-stream"
MAX_RESPONSE_BYTES: Final = 4 * MAX_FRAME_BYTES
SESSION_DELETE_TIMEOUT_S: Final = 2.0
_MAX_CONNECT_TRIES, _CONNECT_RETRY_S = 100, 0.02
_LIST_KINDS: Final = ("tools", "prompts", "resources")


class McpDaemonSession:
    """Sends one client's requests to the daemon at a socket.

    Protocol revisions with a handshake have a session, which ends with its daemon. The messages that established its
    state are kept, so that it can be renewed.

    Args:
        path: The socket.
        target: The request target.
        headers: Headers of each request.
    """

    def __init__(self, path: Path, target: str, headers: Sequence[tuple[str, str]]) -> None:
        self.id: str | None = None
        self._path = path
        self._target = target
        self._extra_headers = tuple(headers)
        self._http = HttpClient(HttpOrigin("http", "localhost", 80), dial=self._connect)
        self._headers = McpRequestHeaders()
        self._revision: str | None = None  # negotiated in the handshake
        self._capabilities: Mapping[str, Any] = {}
        self._replay_lines: dict[str, bytes] = {}  # in order; the latest of each kind
        self._renew_lock = asyncio.Lock()

    @asynccontextmanager
    async def send_request(
        self,
        method: str,
        line: bytes | None = None,
        message: Mapping[str, Any] | None = None,
        *,
        last_event: str | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[ClientResponse, None]:
        """Send one request; yields the response for as long as the block runs.

        Args:
            method: The HTTP method.
            line: The body.
            message: The parsed body, for its headers.
            last_event: The event after which to resume a stream.
            on_sent: Called when the daemon has received the request.

        Raises:
            HttpConnectionLost, ResponseTooLarge: there is no response.
        """
        request = message or {}
        is_initialize = request.get("method") == "initialize"
        headers = [
            *self._extra_headers,
            ("Accept", EVENT_STREAM_TYPE if method == "GET" else f"application/json, {EVENT_STREAM_TYPE}"),
        ]
        if line is not None:
            headers.append(("Content-Type", "application/json"))
        if self.id is not None and not is_initialize:
            headers.append(("Mcp-Session-Id", self.id))
        if last_event is not None:
            headers.append(("Last-Event-Id", last_event))
        headers += self._headers.headers_for(request, None if is_initialize else self._revision)
        async with self._http.request(method, self._target, headers, line, on_sent=on_sent) as response:
            if is_initialize and response.status < 300:
                self.id = response.headers.get("mcp-session-id")
            yield response

    def observe_response(self, message: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        """Remember what later requests, or the renewal of the session, need from a response."""
        result: Any = response.get("result")
        if not isinstance(result, dict):
            return
        content = cast("dict[str, Any]", result)
        params = cast("dict[str, Any]", message.get("params") or {})
        match message["method"]:
            case "initialize":
                self._revision = content.get("protocolVersion")
                self._capabilities = cast("dict[str, Any]", content.get("capabilities") or {})
                self._replay_lines = {"initialize": orjson.dumps(message)}
            case "tools/list":
                self._headers.learn_tools(content.get("tools"))
            case "logging/setLevel":
                self._replay_lines["level"] = orjson.dumps(message)
            case "resources/subscribe":
                self._replay_lines[f"resource {params.get('uri')}"] = orjson.dumps(message)
            case "resources/unsubscribe":
                self._replay_lines.pop(f"resource {params.get('uri')}", None)
            case _:
                pass

    def record_initialized(self, line: bytes) -> None:
        """Remember the client's `initialized` notification."""
        self._replay_lines["initialized"] = line

    async def renew(self, lost: str | None) -> list[bytes]:
        """Renew the session with a daemon that does not know it; return the list-changed notifications for the client.

        Raises:
            HttpConnectionLost, ResponseTooLarge: the daemon is gone too.
        """
        async with self._renew_lock:
            if self.id != lost or "initialize" not in self._replay_lines:
                return []  # another task has renewed it
            for line in tuple(self._replay_lines.values()):
                async with self.send_request("POST", line, cast("dict[str, Any]", orjson.loads(line))) as response:
                    await response.read_body(MAX_RESPONSE_BYTES)
        kinds = [kind for kind in _LIST_KINDS if _supports_list_changed(self._capabilities.get(kind))]
        return [orjson.dumps({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}) for kind in kinds]

    async def close(self) -> None:
        """Delete the session and close all connections."""
        if self.id is not None:
            with suppress(HttpConnectionLost, ResponseTooLarge, TimeoutError):
                async with asyncio.timeout(SESSION_DELETE_TIMEOUT_S), self.send_request("DELETE"):
                    pass
        self._http.close()

    async def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            with socket_address(self._path) as address:
                await _connect_with_retry(connection, address)
        except BaseException:
            connection.close()
            raise
        return connection


async def _connect_with_retry(connection: socket.socket, address: str) -> None:
    """Connect, with retries while the socket's backlog is full; otherwise connecting takes no time."""
    for _ in range(_MAX_CONNECT_TRIES):
        with suppress(BlockingIOError):
            connection.connect(address)
            return
        await asyncio.sleep(_CONNECT_RETRY_S)
    raise OSError(errno.EAGAIN, "nobody is let in")


def _supports_list_changed(capability: Any) -> bool:
    return isinstance(capability, dict) and cast("dict[str, Any]", capability).get("listChanged") is True

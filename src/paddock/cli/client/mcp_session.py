"""What the daemon's `/mcp` has to be told with each request of a client, and what another daemon is told again."""

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
SESSION_DELETE_TIMEOUT_S: Final = 2.0  # seconds for the daemon to hear that we go
_MAX_CONNECT_TRIES, _CONNECT_RETRY_S = 100, 0.02  # how often, and how many seconds between two
_LIST_KINDS: Final = ("tools", "prompts", "resources")


class McpDaemonSession:
    """Requests of one client to the daemon at a socket.

    Revisions that begin with a handshake have a session, which ends with its daemon. The lines that made it what it is
    are kept, so that it can be made again.

    Args:
        path: The socket.
        target: What to ask for there.
        headers: For each request.
    """

    def __init__(self, path: Path, target: str, headers: Sequence[tuple[str, str]]) -> None:
        self.id: str | None = None
        self._path = path
        self._target = target
        self._own = tuple(headers)
        self._http = HttpClient(HttpOrigin("http", "localhost", 80), dial=self._connect)
        self._headers = McpRequestHeaders()
        self._revision: str | None = None  # of the handshake
        self._capabilities: Mapping[str, Any] = {}
        self._kept: dict[str, bytes] = {}  # in order; the last of each kind
        self._renewing = asyncio.Lock()

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
        """The answer to one request, for as long as the block runs.

        Args:
            method: HTTP's.
            line: What is sent.
            message: The same, for its headers.
            last_event: Where in a stream to go on.
            on_sent: Told when the daemon has taken it.

        Raises:
            HttpLost, TooLarge: there is no answer.
        """
        asked = message or {}
        begins = asked.get("method") == "initialize"
        headers = [
            *self._own,
            ("Accept", EVENT_STREAM_TYPE if method == "GET" else f"application/json, {EVENT_STREAM_TYPE}"),
        ]
        if line is not None:
            headers.append(("Content-Type", "application/json"))
        if self.id is not None and not begins:
            headers.append(("Mcp-Session-Id", self.id))
        if last_event is not None:
            headers.append(("Last-Event-Id", last_event))
        headers += self._headers.headers_for(asked, None if begins else self._revision)
        async with self._http.request(method, self._target, headers, line, on_sent=on_sent) as response:
            if begins and response.status < 300:
                self.id = response.headers.get("mcp-session-id")
            yield response

    def observe_response(self, message: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        """Take note of an answer: of what later requests need, and of what a new session would have to be told."""
        result: Any = told.get("result")
        if not isinstance(result, dict):
            return
        about = cast("dict[str, Any]", result)
        params = cast("dict[str, Any]", message.get("params") or {})
        match message["method"]:
            case "initialize":
                self._revision = about.get("protocolVersion")
                self._capabilities = cast("dict[str, Any]", about.get("capabilities") or {})
                self._kept = {"initialize": orjson.dumps(message)}
            case "tools/list":
                self._headers.learn_tools(about.get("tools"))
            case "logging/setLevel":
                self._kept["level"] = orjson.dumps(message)
            case "resources/subscribe":
                self._kept[f"resource {params.get('uri')}"] = orjson.dumps(message)
            case "resources/unsubscribe":
                self._kept.pop(f"resource {params.get('uri')}", None)
            case _:
                pass

    def record_initialized(self, line: bytes) -> None:
        """The client has agreed to what it was answered."""
        self._kept["initialized"] = line

    async def renew(self, lost: str | None) -> list[bytes]:
        """Make the session again with a daemon that does not know it. What to tell the client: what may be different.

        Raises:
            HttpLost, TooLarge: that one is gone too.
        """
        async with self._renewing:
            if self.id != lost or "initialize" not in self._kept:
                return []  # somebody has seen to it
            for line in tuple(self._kept.values()):
                async with self.send_request("POST", line, cast("dict[str, Any]", orjson.loads(line))) as response:
                    await response.read_body(MAX_RESPONSE_BYTES)
        changing = [one for one in _LIST_KINDS if _supports_list_changed(self._capabilities.get(one))]
        return [orjson.dumps({"jsonrpc": "2.0", "method": f"notifications/{one}/list_changed"}) for one in changing]

    async def close(self) -> None:
        """Say goodbye, and end every connection."""
        if self.id is not None:
            with suppress(HttpConnectionLost, ResponseTooLarge, TimeoutError):
                async with asyncio.timeout(SESSION_DELETE_TIMEOUT_S), self.send_request("DELETE"):
                    pass
        self._http.close()

    async def _connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            with socket_address(self._path) as address:
                await _connect_with_retry(made, address)
        except BaseException:
            made.close()
            raise
        return made


async def _connect_with_retry(made: socket.socket, address: str) -> None:
    """Connect, which takes no time, unless so many wait there that the kernel queues no more: then knock again."""
    for _ in range(_MAX_CONNECT_TRIES):
        with suppress(BlockingIOError):
            made.connect(address)
            return
        await asyncio.sleep(_CONNECT_RETRY_S)
    raise OSError(errno.EAGAIN, "nobody is let in")


def _supports_list_changed(about: Any) -> bool:
    return isinstance(about, dict) and cast("dict[str, Any]", about).get("listChanged") is True

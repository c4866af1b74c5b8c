"""Single requests to a server elsewhere: the headers of its protocol and session, and redirects that stay there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urljoin

from paddock.core.printable import printable
from paddock.plugins.runtimes.mcp.http_headers import RequestHeaders, own_headers
from paddock.rpc.faults import INVALID_REQUEST, RpcFault
from paddock.rpc.http_client import HttpClient, Origin, Response, split_url

MOST_REDIRECTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD: Final = frozenset({307, 308})


class Exchanges:
    """Requests to one server.

    Args:
        http: Connections to it.
        target: What to ask for there.
        headers: A person's own, sent with each.
    """

    def __init__(self, http: HttpClient, target: str, headers: Mapping[str, str]) -> None:
        self.session: str | None = None  # what the server calls what it remembers of us
        self.revision: str | None = None  # of a handshake
        self.headers = RequestHeaders()
        self._http = http
        self._target = target
        self._own = own_headers(headers)

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        message: Mapping[str, Any] | None = None,
        frame: bytes | None = None,
        *,
        last_event: str | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[Response, None]:
        """The answer to one request, for as long as the block runs.

        Args:
            method: HTTP's.
            message: What it is about, for its headers.
            frame: The message, where it is sent.
            last_event: Where in a stream to go on.
            on_sent: Told when the server has taken it.

        Raises:
            HttpLost, TooLarge: there is no answer.
            RpcFault: the server sends us elsewhere.
        """
        target = self._target
        for _ in range(MOST_REDIRECTS + 1):
            headers = self._headers(method, message or {}, last_event)
            async with self._http.request(method, target, headers, frame, on_sent=on_sent) as response:
                if response.status not in _REDIRECTS:
                    yield response
                    return
                target = self._redirected(response, method, target)
        raise RpcFault(INVALID_REQUEST, "the server redirects again and again", {"http_status": 310})

    def _headers(self, method: str, message: Mapping[str, Any], last_event: str | None) -> list[tuple[str, str]]:
        stream = "text/event-stream"
        headers = [*self._own, ("Accept", stream if method == "GET" else f"application/json, {stream}")]
        if method == "POST":
            headers.append(("Content-Type", "application/json"))
        if self.session is not None:
            headers.append(("Mcp-Session-Id", self.session))
        if last_event is not None:
            headers.append(("Last-Event-Id", last_event))
        return headers + self.headers.of(message, self.revision)

    def _redirected(self, response: Response, method: str, target: str) -> str:
        """Where to ask instead. Never at another place: that one was not consented to, and would get the headers."""
        origin = self._http.origin
        place = response.headers.get("location", "")
        try:
            place = urljoin(f"{origin.scheme}://{origin.authority}{target}", place)
            there, asked = split_url(place)
        except ValueError:
            there, asked = Origin("http", "?", 0), ""
        if there != origin or (method == "POST" and response.status not in _KEEP_METHOD):
            told = f"the server redirects to {printable(place, 200)}, which is not followed"
            raise RpcFault(INVALID_REQUEST, told, {"http_status": response.status})
        return asked

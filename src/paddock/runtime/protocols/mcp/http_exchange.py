"""Single requests to a server elsewhere: the headers of its protocol and session, and redirects that stay there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast
from urllib.parse import urljoin

import orjson

from paddock.core.printable import printable
from paddock.core.schema.json_value import MAX_DEPTH
from paddock.net.http_client import ClientResponse, HttpClient, HttpOrigin, ResponseTooLarge, split_url
from paddock.rpc.errors import INVALID_REQUEST, METHOD_NOT_FOUND, NO_EFFECT, RpcError
from paddock.rpc.framing import MAX_STRUCTURE_TOKENS, STRUCTURE_CHECKED_FROM_BYTES
from paddock.rpc.mcp.http_headers import McpRequestHeaders, user_headers
from paddock.rpc.message import StructureCounter, exceeds_depth
from paddock.runtime.protocols.mcp.adapter import RELATED_REQUEST_KEY

MAX_REDIRECTS: Final = 3
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_METHOD_KEEPING_STATUSES: Final = frozenset({307, 308})


class McpHttpClient:
    """Requests to one server.

    Args:
        http: Connections to it.
        target: What to ask for there.
        headers: A person's own, sent with each.
    """

    def __init__(self, http: HttpClient, target: str, headers: Mapping[str, str]) -> None:
        self.session: str | None = None  # what the server calls what it remembers of us
        self.revision: str | None = None  # of a handshake
        self.headers = McpRequestHeaders()
        self._http = http
        self._target = target
        self._user_headers = user_headers(headers)

    @asynccontextmanager
    async def send_request(
        self,
        method: str,
        message: Mapping[str, Any] | None = None,
        frame: bytes | None = None,
        *,
        last_event: str | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[ClientResponse, None]:
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
        for _ in range(MAX_REDIRECTS + 1):
            headers = self._request_headers(method, message or {}, last_event)
            async with self._http.request(method, target, headers, frame, on_sent=on_sent) as response:
                if response.status not in _REDIRECT_STATUSES:
                    yield response
                    return
                target = self._redirect_target(response, method, target)
        raise RpcError(INVALID_REQUEST, "the server redirects again and again", {"http_status": 310})

    def _request_headers(
        self, method: str, message: Mapping[str, Any], last_event: str | None
    ) -> list[tuple[str, str]]:
        stream = "text/event-stream"
        headers = [*self._user_headers, ("Accept", stream if method == "GET" else f"application/json, {stream}")]
        if method == "POST":
            headers.append(("Content-Type", "application/json"))
        if self.session is not None:
            headers.append(("Mcp-Session-Id", self.session))
        if last_event is not None:
            headers.append(("Last-Event-Id", last_event))
        return headers + self.headers.headers_for(message, self.revision)

    def _redirect_target(self, response: ClientResponse, method: str, target: str) -> str:
        """Where to ask instead. Never at another place: that one was not consented to, and would get the headers."""
        origin = self._http.origin
        place = response.headers.get("location", "")
        try:
            place = urljoin(f"{origin.scheme}://{origin.authority}{target}", place)
            there, asked = split_url(place)
        except ValueError:
            there, asked = HttpOrigin("http", "?", 0), ""
        if there != origin or (method == "POST" and response.status not in _METHOD_KEEPING_STATUSES):
            told = f"the server redirects to {printable(place, 200)}, which is not followed"
            raise RpcError(INVALID_REQUEST, told, {"http_status": response.status})
        return asked


NO_ANSWER_CODE: Final = -32000
# Who answers so has looked at who asks, for what, how often and in which form, and has not handed it on. Whatever else
# goes wrong may go wrong on the way back.
_NO_EFFECT_STATUSES: Final = frozenset({401, 403, 404, 405, 406, 413, 415, 429})
_MAX_ERROR_BYTES: Final = 64 * 1024


async def response_error(response: ClientResponse) -> RpcError:
    """What a server says that answers with an error of HTTP's."""
    status = response.status
    told: dict[str, Any] | None = None
    if response.content_type == "application/json":
        with contextlib.suppress(ResponseTooLarge):
            told = decode_object(await response.read_body(_MAX_ERROR_BYTES))
    error = told.get("error") if told is not None else None
    if isinstance(error, dict):
        about = cast("dict[str, Any]", error)
        if isinstance(about.get("code"), int) and isinstance(about.get("message"), str):
            return RpcError(about["code"], about["message"], about.get("data", _status_data(status)))
    return status_error(status)


def status_error(status: int) -> RpcError:
    """What an error of HTTP's says by itself."""
    words = {401: "the server wants to know who asks", 403: "the server does not let us in"}
    code = METHOD_NOT_FOUND if status in (404, 405) else NO_ANSWER_CODE
    return RpcError(code, words.get(status, f"the server answered with status {status}"), _status_data(status))


def _status_data(status: int) -> dict[str, Any]:
    return {"http_status": status, NO_EFFECT: True} if status in _NO_EFFECT_STATUSES else {"http_status": status}


def decode_object(line: bytes) -> dict[str, Any] | None:
    """The message in a line; None where it is none, or would take too long to read."""
    if len(line) > STRUCTURE_CHECKED_FROM_BYTES and StructureCounter().count(line) > MAX_STRUCTURE_TOKENS:
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def with_related_request(line: bytes, told: dict[str, Any], message: Mapping[str, Any] | None) -> bytes:
    """A request of the server's, with the number of the one of ours that it belongs to.

    One that a peer refuses to read stays as it is: it may be nested too deep to be written.
    """
    given = told.get("params", {})
    if not isinstance(given, dict) or exceeds_depth(line, MAX_DEPTH):
        return line
    params = cast("dict[str, Any]", given)
    before = params.get("_meta")
    meta = dict(cast("dict[str, Any]", before)) if isinstance(before, dict) else {}
    meta.pop(RELATED_REQUEST_KEY, None)  # ours to say
    if message is not None:
        meta[RELATED_REQUEST_KEY] = message["id"]
    return orjson.dumps({**told, "params": {**params, "_meta": meta}})

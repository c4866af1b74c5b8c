"""Single HTTP requests to a remote MCP server: protocol and session headers, same-origin redirects, error responses."""

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
from paddock.rpc.errors import INVALID_REQUEST, METHOD_NOT_FOUND, NO_ANSWER, NO_EFFECT, RpcError
from paddock.rpc.framing import MAX_STRUCTURE_TOKENS, STRUCTURE_CHECKED_FROM_BYTES
from paddock.rpc.mcp.http_headers import McpRequestHeaders, user_headers
from paddock.rpc.mcp.revisions import parse_initialize_result
from paddock.rpc.message import StructureCounter, exceeds_depth
from paddock.runtime.protocols.mcp.adapter import RELATED_REQUEST_KEY

MAX_REDIRECTS: Final = 3
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_METHOD_KEEPING_STATUSES: Final = frozenset({307, 308})


class McpHttpClient:
    """Sends requests to one server.

    Args:
        http: Connections to it.
        target: The request target there.
        headers: The user's own headers, sent with each request.
    """

    def __init__(self, http: HttpClient, target: str, headers: Mapping[str, str]) -> None:
        self.session: str | None = None  # the session id that the server assigned
        self.revision: str | None = None  # the revision that the handshake negotiated
        self._protocol_headers = McpRequestHeaders()
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
        """Send one request and yield the response for as long as the block runs.

        Args:
            method: The HTTP method.
            message: The JSON-RPC message, for the headers.
            frame: The encoded message, if the request has a body.
            last_event: The event id after which to resume a stream.
            on_sent: Called when the server has taken the request.

        Raises:
            HttpConnectionLost, ResponseTooLarge: there is no response.
            RpcError: the server redirects elsewhere.
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

    def note_response(self, message: Mapping[str, Any], response: ClientResponse) -> None:
        """Note the session that the server assigns with its response to the handshake."""
        if message["method"] == "initialize":
            self.session = response.headers.get("mcp-session-id")

    def note_answer(self, message: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Note what later requests need in their headers."""
        result = cast("dict[str, Any]", answer["result"]) if isinstance(answer.get("result"), dict) else {}
        if message["method"] == "initialize":
            server = parse_initialize_result(result)
            self.revision = server.revision if server is not None else None
        elif message["method"] == "tools/list":
            self._protocol_headers.learn_tools(result.get("tools"))

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
        return headers + self._protocol_headers.headers_for(message, self.revision)

    def _redirect_target(self, response: ClientResponse, method: str, target: str) -> str:
        """Return the redirect target. Another origin is rejected: it was not consented to and would get the headers."""
        origin = self._http.origin
        location = response.headers.get("location", "")
        try:
            location = urljoin(f"{origin.scheme}://{origin.authority}{target}", location)
            redirect_origin, redirect_target = split_url(location)
        except ValueError:
            redirect_origin, redirect_target = HttpOrigin("http", "?", 0), ""
        if redirect_origin != origin or (method == "POST" and response.status not in _METHOD_KEEPING_STATUSES):
            error_text = f"the server redirects to {printable(location, 200)}, which is not followed"
            raise RpcError(INVALID_REQUEST, error_text, {"http_status": response.status})
        return redirect_target


# With these statuses the server checked sender, size, rate or form of the request and did not process it. Any other
# failure may have happened after processing.
_NO_EFFECT_STATUSES: Final = frozenset({401, 403, 404, 405, 406, 413, 415, 429})
_MAX_ERROR_BYTES: Final = 64 * 1024


async def response_error(response: ClientResponse) -> RpcError:
    """Build the error of an HTTP error response."""
    status = response.status
    payload: dict[str, Any] | None = None
    if response.content_type == "application/json":
        with contextlib.suppress(ResponseTooLarge):
            payload = decode_object(await response.read_body(_MAX_ERROR_BYTES))
    error = payload.get("error") if payload is not None else None
    if isinstance(error, dict):
        rpc_error = cast("dict[str, Any]", error)
        if isinstance(rpc_error.get("code"), int) and isinstance(rpc_error.get("message"), str):
            return RpcError(rpc_error["code"], rpc_error["message"], rpc_error.get("data", _status_data(status)))
    return status_error(status)


def status_error(status: int) -> RpcError:
    """Build the error of a bare HTTP status."""
    texts = {401: "the server requires authentication", 403: "the server rejects the credentials"}
    code = METHOD_NOT_FOUND if status in (404, 405) else NO_ANSWER
    return RpcError(code, texts.get(status, f"the server answered with status {status}"), _status_data(status))


def _status_data(status: int) -> dict[str, Any]:
    return {"http_status": status, NO_EFFECT: True} if status in _NO_EFFECT_STATUSES else {"http_status": status}


def decode_object(line: bytes) -> dict[str, Any] | None:
    """Decode a JSON object; None if it is not one, or would take too long to parse."""
    if len(line) > STRUCTURE_CHECKED_FROM_BYTES and StructureCounter().count(line) > MAX_STRUCTURE_TOKENS:
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def with_related_request(line: bytes, request: dict[str, Any], message: Mapping[str, Any] | None) -> bytes:
    """Add the id of our related request to a server's request.

    A message nested too deep stays as it is: the peer rejects it, and it may be too deep to encode.
    """
    raw_params = request.get("params", {})
    if not isinstance(raw_params, dict) or exceeds_depth(line, MAX_DEPTH):
        return line
    params = cast("dict[str, Any]", raw_params)
    raw_meta = params.get("_meta")
    meta = dict(cast("dict[str, Any]", raw_meta)) if isinstance(raw_meta, dict) else {}
    meta.pop(RELATED_REQUEST_KEY, None)  # only the host may set it
    if message is not None:
        meta[RELATED_REQUEST_KEY] = message["id"]
    return orjson.dumps({**request, "params": {**params, "_meta": meta}})

"""The legacy HTTP+SSE transport (2024-11-05): one stream for all responses, and a POST endpoint that it announces.

`GET /mcp/sse` opens the stream, which is the session; messages are posted to `/mcp/messages?session=…`. It is
deprecated, but some clients support no other.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from paddock.core.errors import Busy
from paddock.mcp_server.http_transport.reply import (
    JSON_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    run_until_disconnect,
    send_response,
    send_stream,
)
from paddock.mcp_server.http_transport.request import (
    MCP_PATH,
    HeaderMap,
    HttpRejection,
    RequestAuthenticator,
    accepts_media_type,
    read_bounded_body,
    revalidate_owner,
)
from paddock.mcp_server.http_transport.sessions import McpHttpSessions
from paddock.mcp_server.results import fault_from_error
from paddock.rpc.errors import PARSE_ERROR
from paddock.rpc.message import MalformedMessage, NonRpcLine, RpcRequest, decode

STREAM_PATH: Final = f"{MCP_PATH}/sse"
MESSAGES_PATH: Final = f"{MCP_PATH}/messages"


class LegacySseTransport:
    """Serves the legacy HTTP+SSE transport.

    Args:
        sessions: Shared with the streamable HTTP transport.
        authenticator: Provides the caller of a request.
    """

    def __init__(self, sessions: McpHttpSessions, authenticator: RequestAuthenticator) -> None:
        self._sessions = sessions
        self._authenticator = authenticator

    async def serve(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        """Serve one request.

        Raises:
            HttpRejection: the path or method does not exist, or the request is invalid.
        """
        match scope["path"], scope["method"]:
            case path, "GET" if path == STREAM_PATH:
                await self._stream(scope, receive, send, headers)
            case path, "POST" if path == MESSAGES_PATH:
                await self._message(scope, receive, send, headers)
            case _:
                raise HttpRejection(404, f"there is nothing here: use {MCP_PATH}")

    async def _stream(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        if not accepts_media_type(headers, SSE_MEDIA_TYPE):
            raise HttpRejection(406, "accept text/event-stream")
        try:
            session = self._sessions.open(
                await self._authenticator.context_for(scope), partial(self._authenticator.reauthenticate, scope)
            )
        except Busy as busy:
            raise HttpRejection.from_fault(429, fault_from_error(busy)) from busy
        endpoint_event = b"event: endpoint\ndata: %b?session=%b\n\n" % (MESSAGES_PATH.encode(), session.id.encode())
        try:
            revalidate = revalidate_owner(self._authenticator, scope, session.owner)
            await run_until_disconnect(
                receive, send_stream(send, session.notification_stream, revalidate, first=endpoint_event)
            )
        finally:
            self._sessions.end(session)

    async def _message(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON_MEDIA_TYPE:
            raise HttpRejection(415, "the body has to be application/json")
        context = await self._authenticator.context_for(scope)
        session_ids = parse_qs(scope["query_string"].decode("latin-1")).get("session", [""])
        session = self._sessions.find(session_ids[0], context, partial(self._authenticator.reauthenticate, scope))
        if session is None:
            raise HttpRejection(404, f"there is no such session: open {STREAM_PATH}")
        message = decode(await read_bounded_body(receive, headers))
        if isinstance(message, NonRpcLine):
            raise HttpRejection(400, "the body is not JSON", PARSE_ERROR)
        if isinstance(message, MalformedMessage):
            raise HttpRejection(400, message.reason, message.code)
        await send_response(send, 202)
        if not isinstance(message, RpcRequest):
            session.server_session.receive(message)
            return
        # The HTTP response is complete; the result follows on the stream.
        response = await session.server_session.handle_request(message, context, session.notification_stream.put)
        if response:
            session.notification_stream.put(response)

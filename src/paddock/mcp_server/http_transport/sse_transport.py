"""MCP over HTTP as it was first (2024-11-05): one stream for all answers, and an address for messages that it names.

`GET /mcp/sse` opens the stream, which is the session; messages are posted to `/mcp/messages?session=…`. It has been
deprecated since, and some clients know no other.
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
    """The older of the two ways over HTTP.

    Args:
        sessions: Where its sessions are, among the others.
        callers: Says who calls.
    """

    def __init__(self, sessions: McpHttpSessions, callers: RequestAuthenticator) -> None:
        self._sessions = sessions
        self._callers = callers

    async def serve(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        """Answer one request.

        Raises:
            Refused: there is nothing here for it.
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
                await self._callers.context_for(scope), partial(self._callers.reauthenticate, scope)
            )
        except Busy as busy:
            raise HttpRejection.from_fault(429, fault_from_error(busy)) from busy
        where = b"event: endpoint\ndata: %b?session=%b\n\n" % (MESSAGES_PATH.encode(), session.id.encode())
        try:
            still = revalidate_owner(self._callers, scope, session.owner)
            await run_until_disconnect(receive, send_stream(send, session.notification_stream, still, first=where))
        finally:
            self._sessions.end(session)

    async def _message(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON_MEDIA_TYPE:
            raise HttpRejection(415, "the body has to be application/json")
        context = await self._callers.context_for(scope)
        named = parse_qs(scope["query_string"].decode("latin-1")).get("session", [""])
        session = self._sessions.find(named[0], context, partial(self._callers.reauthenticate, scope))
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
        # The response is over, and this goes on: the answer comes on the stream.
        answer = await session.server_session.handle_request(message, context, session.notification_stream.put)
        if answer:
            session.notification_stream.put(answer)

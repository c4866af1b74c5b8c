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
from paddock.gateway.http_reply import EVENTS, JSON, respond, stream_out, until_hung_up
from paddock.gateway.http_request import ROOT, Callers, Headers, Refused, accepts, body_of, while_theirs
from paddock.gateway.sessions import Sessions
from paddock.gateway.writing import fault_from
from paddock.rpc.faults import PARSE_ERROR
from paddock.rpc.message import Malformed, Noise, Request, decode

STREAM: Final = f"{ROOT}/sse"
MESSAGES: Final = f"{ROOT}/messages"


class OlderTransport:
    """The older of the two ways over HTTP.

    Args:
        sessions: Where its sessions are, among the others.
        callers: Says who calls.
    """

    def __init__(self, sessions: Sessions, callers: Callers) -> None:
        self._sessions = sessions
        self._callers = callers

    async def serve(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """Answer one request.

        Raises:
            Refused: there is nothing here for it.
        """
        match scope["path"], scope["method"]:
            case path, "GET" if path == STREAM:
                await self._stream(scope, receive, send, headers)
            case path, "POST" if path == MESSAGES:
                await self._message(scope, receive, send, headers)
            case _:
                raise Refused(404, f"there is nothing here: use {ROOT}")

    async def _stream(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        if not accepts(headers, EVENTS):
            raise Refused(406, "accept text/event-stream")
        try:
            session = self._sessions.open(
                await self._callers.context_of(scope), partial(self._callers.proven_again, scope)
            )
        except Busy as busy:
            raise Refused.by(429, fault_from(busy)) from busy
        where = b"event: endpoint\ndata: %b?session=%b\n\n" % (MESSAGES.encode(), session.id.encode())
        try:
            still = while_theirs(self._callers, scope, session.owner)
            await until_hung_up(receive, stream_out(send, session.standing, still, first=where))
        finally:
            self._sessions.end(session)

    async def _message(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
            raise Refused(415, "the body has to be application/json")
        context = await self._callers.context_of(scope)
        named = parse_qs(scope["query_string"].decode("latin-1")).get("session", [""])
        session = self._sessions.find(named[0], context, partial(self._callers.proven_again, scope))
        if session is None:
            raise Refused(404, f"there is no such session: open {STREAM}")
        message = decode(await body_of(receive, headers))
        if isinstance(message, Noise):
            raise Refused(400, "the body is not JSON", PARSE_ERROR)
        if isinstance(message, Malformed):
            raise Refused(400, message.reason, message.code)
        await respond(send, 202)
        if not isinstance(message, Request):
            session.conversation.hear(message)
            return
        # The response is over, and this goes on: the answer comes on the stream.
        answer = await session.conversation.answer(message, context, session.standing.put)
        if answer:
            session.standing.put(answer)

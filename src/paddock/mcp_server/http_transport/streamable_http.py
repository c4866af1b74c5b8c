"""`/mcp`: MCP over streamable HTTP, for all revisions at one path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from paddock.core.call import CallContext
from paddock.core.error_formats import http_status
from paddock.core.errors import PaddockError
from paddock.core.printable import printable
from paddock.core.schema.json_value import MAX_DEPTH
from paddock.mcp_server.exchange import request_owner
from paddock.mcp_server.http_transport.reply import (
    JSON_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    PostReply,
    run_until_disconnect,
    send_response,
    send_stream,
)
from paddock.mcp_server.http_transport.request import (
    MCP_PATH,
    HeaderMap,
    HttpRejection,
    RequestAuthenticator,
    accepted_media_types,
    accepts_media_type,
    read_bounded_body,
    revalidate_owner,
)
from paddock.mcp_server.http_transport.sessions import McpHttpSession, McpHttpSessions
from paddock.mcp_server.http_transport.sse_transport import LegacySseTransport
from paddock.mcp_server.results import encode_fault, encode_result, fault_from_error
from paddock.mcp_server.revisions import HANDSHAKE_REVISIONS, STATELESS_REVISIONS
from paddock.mcp_server.stateless import (
    FAULT_HTTP_STATUS,
    StatelessRequests,
    is_stateless_request,
    unsupported_revision_fault,
)
from paddock.rpc.errors import PARSE_ERROR, RpcError
from paddock.rpc.message import (
    MalformedMessage,
    NonRpcLine,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    decode,
    exceeds_depth,
)

SESSION_HEADER: Final = b"mcp-session-id"
VERSION_HEADER: Final = b"mcp-protocol-version"
MAX_BATCH_MESSAGES: Final = 100
REQUEST_CANCELLED: Final = -32800


class StreamableHttpApp:
    """The ASGI application for `/mcp`.

    Args:
        sessions: Sessions of clients that start with a handshake.
        stateless: Serves requests without a session.
        authenticator: Provides the caller of a request.
    """

    def __init__(
        self, sessions: McpHttpSessions, stateless: StatelessRequests, authenticator: RequestAuthenticator
    ) -> None:
        self._sessions = sessions
        self._stateless = stateless
        self._authenticator = authenticator
        self._sse_transport = LegacySseTransport(sessions, authenticator)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: HeaderMap = dict(scope["headers"])
        try:
            if scope["path"] not in (MCP_PATH, f"{MCP_PATH}/"):
                await self._sse_transport.serve(scope, receive, send, headers)
                return
            match scope["method"]:
                case "POST":
                    await self._post(scope, receive, send, headers)
                case "GET":
                    await self._get(scope, receive, send, headers)
                case "DELETE":
                    await self._delete(scope, send, headers)
                case _:
                    await send_response(send, 405, headers=[(b"allow", b"GET, POST, DELETE")])
        except HttpRejection as rejection:
            await send_response(send, rejection.status, encode_fault(None, rejection.fault))

    # --- messages from the client -------------------------------------------------------------------------------------

    async def _post(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON_MEDIA_TYPE:
            raise HttpRejection(415, "the body has to be application/json")
        context = await self._authenticator.context_for(scope)
        body = await read_bounded_body(receive, headers)
        message = decode(body)
        version = headers.get(VERSION_HEADER, b"").decode("latin-1")
        if isinstance(message, RpcRequest):
            if message.method == "initialize" and version not in STATELESS_REVISIONS:
                await self._initialize_session(message, context, scope, receive, send, headers)
                return
            if version in STATELESS_REVISIONS or is_stateless_request(message):
                await self._serve_stateless(message, context, scope, receive, send, headers)
                return
            session = self._session(scope, headers, context)
            reply = self._reply(scope, receive, send, headers, session)
            await reply.reply_with(_answer_request(session, message, context, reply.send_message))
            return
        if version in STATELESS_REVISIONS:
            # Clients of this revision have nothing to notify: they cancel by disconnecting.
            await send_response(send, 202 if isinstance(message, RpcNotification) else 400)
            return
        session = self._session(scope, headers, context)
        await self._handle_non_request(message, body, session, context, scope, receive, send, headers)

    async def _serve_stateless(
        self, request: RpcRequest, context: CallContext, scope: Scope, receive: Receive, send: Send, headers: HeaderMap
    ) -> None:
        """Serve a self-contained request."""
        json, events = accepted_media_types(headers)
        if request.method == "subscriptions/listen" and not events:
            raise HttpRejection(406, "accept text/event-stream")
        revalidate = revalidate_owner(self._authenticator, scope, request_owner(context))
        reply = PostReply(receive, send, json=json, events=events, revalidate=revalidate)

        async def work() -> bytes:
            try:
                return encode_result(
                    request.id, await self._stateless.handle(request, context, reply.send_message, scope["headers"])
                )
            except RpcError as fault:
                reply.status = FAULT_HTTP_STATUS.get(fault.code, 200)
                return encode_fault(request.id, fault)

        await reply.reply_with(work())

    async def _initialize_session(
        self, request: RpcRequest, context: CallContext, scope: Scope, receive: Receive, send: Send, headers: HeaderMap
    ) -> None:
        if SESSION_HEADER in headers:
            raise HttpRejection(400, "a handshake begins a session, and has none yet")
        try:
            session = self._sessions.open(context, partial(self._authenticator.reauthenticate, scope))
        except PaddockError as error:
            body = encode_fault(request.id, fault_from_error(error))
            await send_response(send, http_status(error), body, [(b"retry-after", b"1")])
            return
        response = await session.server_session.handle_request(request, context, None)
        if session.server_session.revision is None:
            self._sessions.end(session)
            await send_response(send, 400, response)
            return
        reply = self._reply(scope, receive, send, headers, session, with_session_id=True)
        await reply.reply_with(_already_answered(response))

    async def _handle_non_request(
        self,
        message: RpcMessage,
        body: bytes,
        session: McpHttpSession,
        context: CallContext,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: HeaderMap,
    ) -> None:
        match message:
            case MalformedMessage(kind="batch"):
                await self._batch(body, session, context, scope, receive, send, headers)
            case MalformedMessage():
                fault = RpcError(message.code, message.reason)
                await send_response(send, 400, encode_fault(message.id, fault))
            case NonRpcLine():
                raise HttpRejection(400, "the body is not JSON", PARSE_ERROR)
            case RpcRequest():
                raise AssertionError("a request was answered")
            case _:
                session.server_session.receive(message)
                await send_response(send, 202)

    async def _batch(
        self,
        body: bytes,
        session: McpHttpSession,
        context: CallContext,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: HeaderMap,
    ) -> None:
        revision = session.server_session.revision
        if revision is None or not revision.batches:
            raise HttpRejection(400, "several messages in one body are not taken")
        if exceeds_depth(body, MAX_DEPTH + 1):
            raise HttpRejection(400, f"nested more than {MAX_DEPTH} levels deep")
        items: list[Any] = orjson.loads(body)
        if not 0 < len(items) <= MAX_BATCH_MESSAGES:
            raise HttpRejection(400, f"a batch has 1 to {MAX_BATCH_MESSAGES} messages")
        messages = [decode(orjson.dumps(item)) for item in items]
        requests: list[RpcRequest] = []
        for message in messages:
            if isinstance(message, RpcRequest):
                if message.method == "initialize":
                    raise HttpRejection(400, "a handshake stands alone")
                requests.append(message)
            elif isinstance(message, MalformedMessage | NonRpcLine):
                raise HttpRejection(400, "the batch has something else in it than messages")
            else:
                session.server_session.receive(message)
        if not requests:
            await send_response(send, 202)
            return
        reply = self._reply(scope, receive, send, headers, session)
        await reply.reply_with(_answer_batch(session, requests, context, reply.send_message))

    # --- messages to the client ---------------------------------------------------------------------------------------

    async def _get(self, scope: Scope, receive: Receive, send: Send, headers: HeaderMap) -> None:
        if headers.get(VERSION_HEADER, b"").decode("latin-1") in STATELESS_REVISIONS:
            await send_response(send, 405, headers=[(b"allow", b"POST")])
            return
        if not accepts_media_type(headers, SSE_MEDIA_TYPE):
            raise HttpRejection(406, "accept text/event-stream")
        session = self._session(scope, headers, await self._authenticator.context_for(scope))
        stream, after = session.notification_stream, session.notification_stream.last_read
        if b"last-event-id" in headers:
            found = session.streams.find(headers[b"last-event-id"].decode("latin-1"))
            if found is None:
                raise HttpRejection(400, "the event that Last-Event-ID names is not remembered any more")
            stream, after = found
        revalidate = revalidate_owner(self._authenticator, scope, session.owner)
        await run_until_disconnect(receive, send_stream(send, stream, revalidate, after))

    async def _delete(self, scope: Scope, send: Send, headers: HeaderMap) -> None:
        if headers.get(VERSION_HEADER, b"").decode("latin-1") in STATELESS_REVISIONS:
            await send_response(send, 405, headers=[(b"allow", b"POST")])
            return
        self._sessions.end(self._session(scope, headers, await self._authenticator.context_for(scope)))
        await send_response(send, 204)

    def _reply(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: HeaderMap,
        session: McpHttpSession,
        *,
        with_session_id: bool = False,
    ) -> PostReply:
        json, events = accepted_media_types(headers)
        revision = session.server_session.revision
        primed = revision is not None and revision.primed_streams
        return PostReply(
            receive,
            send,
            json=json,
            events=events,
            revalidate=revalidate_owner(self._authenticator, scope, session.owner),
            open_stream=lambda: session.streams.open(primed=primed),
            headers=((SESSION_HEADER, session.id.encode()),) if with_session_id else (),
        )

    def _session(self, scope: Scope, headers: HeaderMap, context: CallContext) -> McpHttpSession:
        """Return the session that a request belongs to.

        Raises:
            HttpRejection: no session is named, it is not the caller's, or the revision differs from the negotiated
                one.
        """
        session_id, version = headers.get(SESSION_HEADER), headers.get(VERSION_HEADER)
        if version is not None and version.decode("latin-1") not in HANDSHAKE_REVISIONS:
            raise HttpRejection.from_fault(400, unsupported_revision_fault(printable(version.decode("latin-1"), 40)))
        if session_id is None:
            raise HttpRejection(400, "Mcp-Session-Id is missing: begin with `initialize`")
        session = self._sessions.find(
            session_id.decode("latin-1"), context, partial(self._authenticator.reauthenticate, scope)
        )
        if session is None:
            raise HttpRejection(404, "there is no such session: begin with `initialize`")
        return session


async def _answer_request(
    session: McpHttpSession, request: RpcRequest, context: CallContext, send_message: Callable[[bytes], None] | None
) -> bytes:
    """Return the response to a request; an error if its client cancelled it, since an HTTP exchange must end."""
    response = await session.server_session.handle_request(request, context, send_message)
    return response or encode_fault(request.id, RpcError(REQUEST_CANCELLED, "the request was cancelled"))


async def _already_answered(response: bytes) -> bytes:
    return response


async def _answer_batch(
    session: McpHttpSession,
    requests: list[RpcRequest],
    context: CallContext,
    send_message: Callable[[bytes], None] | None,
) -> bytes:
    """Return the responses to all requests of a batch, as a batch."""
    responses = [_answer_request(session, request, context, send_message) for request in requests]
    return b"[%b]" % b",".join(await asyncio.gather(*responses))

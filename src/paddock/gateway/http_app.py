"""`/mcp`: MCP over streamable HTTP, for all revisions at one address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.json_value import MAX_DEPTH
from paddock.core.outward import http_status
from paddock.core.printable import printable
from paddock.gateway.http_reply import EVENTS, JSON, Reply, respond, stream_out, until_hung_up
from paddock.gateway.http_request import ROOT, Callers, Headers, Refused, accepted, accepts, body_of, while_theirs
from paddock.gateway.older_transport import OlderTransport
from paddock.gateway.owners import owner_of
from paddock.gateway.revisions import HANDSHAKE, STATELESS
from paddock.gateway.sessions import Session, Sessions
from paddock.gateway.stateless import HTTP_STATUS, Stateless, stands_alone, unsupported
from paddock.gateway.writing import answer_of, fault_as, fault_from
from paddock.rpc.faults import PARSE_ERROR, RpcFault
from paddock.rpc.message import Malformed, Message, Noise, Notification, Request, decode
from paddock.rpc.structure import nested_deeper

SESSION: Final = b"mcp-session-id"
VERSION: Final = b"mcp-protocol-version"
MOST_IN_A_BATCH: Final = 100
CANCELLED: Final = -32800


class McpApp:
    """The application.

    Args:
        sessions: Of clients that begin with a handshake.
        stateless: Answers those that do not.
        callers: Says who calls.
    """

    def __init__(self, sessions: Sessions, stateless: Stateless, callers: Callers) -> None:
        self._sessions = sessions
        self._stateless = stateless
        self._callers = callers
        self._older = OlderTransport(sessions, callers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = dict(scope["headers"])
        try:
            if scope["path"] not in (ROOT, f"{ROOT}/"):
                await self._older.serve(scope, receive, send, headers)
                return
            match scope["method"]:
                case "POST":
                    await self._post(scope, receive, send, headers)
                case "GET":
                    await self._get(scope, receive, send, headers)
                case "DELETE":
                    await self._delete(scope, send, headers)
                case _:
                    await respond(send, 405, headers=[(b"allow", b"GET, POST, DELETE")])
        except Refused as refused:
            await respond(send, refused.status, fault_as(None, refused.fault))

    # --- messages from the client -------------------------------------------------------------------------------------

    async def _post(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
            raise Refused(415, "the body has to be application/json")
        context = await self._callers.context_of(scope)
        body = await body_of(receive, headers)
        message = decode(body)
        version = headers.get(VERSION, b"").decode("latin-1")
        if isinstance(message, Request):
            if message.method == "initialize" and version not in STATELESS:
                await self._begin(message, context, scope, receive, send, headers)
                return
            if version in STATELESS or stands_alone(message):
                await self._alone(message, context, scope, receive, send, headers)
                return
            session = self._session(scope, headers, context)
            reply = self._reply(scope, receive, send, headers, session)
            await reply.answer_with(_answer(session, message, context, reply.tell))
            return
        if version in STATELESS:
            # There is nothing that a client of this revision could tell us: it hangs up where others cancel.
            await respond(send, 202 if isinstance(message, Notification) else 400)
            return
        session = self._session(scope, headers, context)
        await self._other(message, body, session, context, scope, receive, send, headers)

    async def _alone(
        self, request: Request, context: CallContext, scope: Scope, receive: Receive, send: Send, headers: Headers
    ) -> None:
        """A request that stands for itself."""
        json, events = accepted(headers)
        if request.method == "subscriptions/listen" and not events:
            raise Refused(406, "accept text/event-stream")
        still = while_theirs(self._callers, scope, owner_of(context))
        reply = Reply(receive, send, json=json, events=events, still=still)

        async def work() -> bytes:
            try:
                return answer_of(
                    request.id, await self._stateless.result(request, context, reply.tell, scope["headers"])
                )
            except RpcFault as fault:
                reply.status = HTTP_STATUS.get(fault.code, 200)
                return fault_as(request.id, fault)

        await reply.answer_with(work())

    async def _begin(
        self, request: Request, context: CallContext, scope: Scope, receive: Receive, send: Send, headers: Headers
    ) -> None:
        if SESSION in headers:
            raise Refused(400, "a handshake begins a session, and has none yet")
        try:
            session = self._sessions.open(context, partial(self._callers.proven_again, scope))
        except PaddockError as error:
            told = fault_as(request.id, fault_from(error))
            await respond(send, http_status(error), told, [(b"retry-after", b"1")])
            return
        answer = await session.conversation.answer(request, context, None)
        if session.conversation.revision is None:
            self._sessions.end(session)
            await respond(send, 400, answer)
            return
        reply = self._reply(scope, receive, send, headers, session, named=True)
        await reply.answer_with(_given(answer))

    async def _other(
        self,
        message: Message,
        body: bytes,
        session: Session,
        context: CallContext,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: Headers,
    ) -> None:
        match message:
            case Malformed(kind="batch"):
                await self._batch(body, session, context, scope, receive, send, headers)
            case Malformed():
                fault = RpcFault(message.code, message.reason)
                await respond(send, 400, fault_as(message.id, fault))
            case Noise():
                raise Refused(400, "the body is not JSON", PARSE_ERROR)
            case Request():
                raise AssertionError("a request was answered")
            case _:
                session.conversation.hear(message)
                await respond(send, 202)

    async def _batch(
        self,
        body: bytes,
        session: Session,
        context: CallContext,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: Headers,
    ) -> None:
        revision = session.conversation.revision
        if revision is None or not revision.batches:
            raise Refused(400, "several messages in one body are not taken")
        if nested_deeper(body, MAX_DEPTH + 1):
            raise Refused(400, f"nested more than {MAX_DEPTH} levels deep")
        several: list[Any] = orjson.loads(body)
        if not 0 < len(several) <= MOST_IN_A_BATCH:
            raise Refused(400, f"a batch has 1 to {MOST_IN_A_BATCH} messages")
        messages = [decode(orjson.dumps(one)) for one in several]
        requests: list[Request] = []
        for message in messages:
            if isinstance(message, Request):
                if message.method == "initialize":
                    raise Refused(400, "a handshake stands alone")
                requests.append(message)
            elif isinstance(message, Malformed | Noise):
                raise Refused(400, "the batch has something else in it than messages")
            else:
                session.conversation.hear(message)
        if not requests:
            await respond(send, 202)
            return
        reply = self._reply(scope, receive, send, headers, session)
        await reply.answer_with(_all(session, requests, context, reply.tell))

    # --- messages to the client ---------------------------------------------------------------------------------------

    async def _get(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        if headers.get(VERSION, b"").decode("latin-1") in STATELESS:
            await respond(send, 405, headers=[(b"allow", b"POST")])
            return
        if not accepts(headers, EVENTS):
            raise Refused(406, "accept text/event-stream")
        session = self._session(scope, headers, await self._callers.context_of(scope))
        stream, after = session.standing, session.standing.read_to
        if b"last-event-id" in headers:
            found = session.streams.found(headers[b"last-event-id"].decode("latin-1"))
            if found is None:
                raise Refused(400, "the event that Last-Event-ID names is not remembered any more")
            stream, after = found
        still = while_theirs(self._callers, scope, session.owner)
        await until_hung_up(receive, stream_out(send, stream, still, after))

    async def _delete(self, scope: Scope, send: Send, headers: Headers) -> None:
        if headers.get(VERSION, b"").decode("latin-1") in STATELESS:
            await respond(send, 405, headers=[(b"allow", b"POST")])
            return
        self._sessions.end(self._session(scope, headers, await self._callers.context_of(scope)))
        await respond(send, 204)

    def _reply(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, session: Session, *, named: bool = False
    ) -> Reply:
        json, events = accepted(headers)
        revision = session.conversation.revision
        primed = revision is not None and revision.primed
        return Reply(
            receive,
            send,
            json=json,
            events=events,
            still=while_theirs(self._callers, scope, session.owner),
            open_stream=lambda: session.streams.open(primed=primed),
            headers=((SESSION, session.id.encode()),) if named else (),
        )

    def _session(self, scope: Scope, headers: Headers, context: CallContext) -> Session:
        """The session that a request belongs to.

        Raises:
            Refused: it names none, or none of theirs, or another revision than was agreed on.
        """
        name, version = headers.get(SESSION), headers.get(VERSION)
        if version is not None and version.decode("latin-1") not in HANDSHAKE:
            raise Refused.by(400, unsupported(printable(version.decode("latin-1"), 40)))
        if name is None:
            raise Refused(400, "Mcp-Session-Id is missing: begin with `initialize`")
        session = self._sessions.find(name.decode("latin-1"), context, partial(self._callers.proven_again, scope))
        if session is None:
            raise Refused(404, "there is no such session: begin with `initialize`")
        return session


async def _answer(
    session: Session, request: Request, context: CallContext, tell: Callable[[bytes], None] | None
) -> bytes:
    """The answer to a request; an error where its client cancelled it, since an exchange over HTTP has to end."""
    answer = await session.conversation.answer(request, context, tell)
    return answer or fault_as(request.id, RpcFault(CANCELLED, "the request was cancelled"))


async def _given(answer: bytes) -> bytes:
    return answer


async def _all(
    session: Session, requests: list[Request], context: CallContext, tell: Callable[[bytes], None] | None
) -> bytes:
    """The answers to all requests of a batch, as a batch."""
    answers = [_answer(session, one, context, tell) for one in requests]
    return b"[%b]" % b",".join(await asyncio.gather(*answers))

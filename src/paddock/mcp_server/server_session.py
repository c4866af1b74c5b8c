"""One client that began with a handshake: what was agreed on, what is under way, and what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import orjson

from paddock.core.call import CallContext
from paddock.core.printable import printable
from paddock.mcp_server.exchange import ContextProvider, McpExchange, SendMessage, Subscriber, encode_notification
from paddock.mcp_server.in_flight import InFlightRequests
from paddock.mcp_server.methods import McpMethods
from paddock.mcp_server.results import SERVER_INFO
from paddock.mcp_server.revisions import (
    HANDSHAKE_REVISIONS,
    LOG_LEVELS,
    NEWEST_HANDSHAKE_REVISION,
    NO_ELICITATION,
    ElicitationModes,
    ProtocolRevision,
    parse_elicitation_modes,
)
from paddock.rpc.errors import INVALID_PARAMS, INVALID_REQUEST, RpcError
from paddock.rpc.message import MessageId, RpcFailure, RpcNotification, RpcRequest, RpcResult


class ServerSession:
    """A client and we.

    Args:
        methods: Answers requests.
        tell: Sends the client what belongs to none of its requests.
        context: Who the client is when it is told that.
    """

    def __init__(self, methods: McpMethods, tell: SendMessage, context: ContextProvider) -> None:
        self._methods = methods
        self._watcher = Subscriber(tell, context)
        self.revision: ProtocolRevision | None = None  # until they have shaken hands
        self._elicitation_modes: ElicitationModes = NO_ELICITATION
        self._level: str | None = None  # whoever wants log messages says so
        self._in_flight = InFlightRequests()
        self._pending_questions: dict[str, asyncio.Future[Any]] = {}
        self._count = 0

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self._in_flight)

    def close(self) -> None:
        """The client is gone, and nobody wants what is under way."""
        self._in_flight.close()
        self._watcher.close()

    def receive(self, message: RpcNotification | RpcResult | RpcFailure) -> None:
        """Something that wants no answer: news, or the answer to a question of ours."""
        match message:
            case RpcNotification("notifications/cancelled", params):
                self._in_flight.cancel(params.get("requestId"))
            case RpcNotification():
                pass
            case RpcResult(number, value):
                self._resolve_question(number, value)
            case RpcFailure(number, _):
                self._resolve_question(number, None)

    def _resolve_question(self, number: MessageId | None, value: Any) -> None:
        waiting = self._pending_questions.pop(number, None) if isinstance(number, str) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    async def handle_request(self, request: RpcRequest, context: CallContext, tell: SendMessage | None) -> bytes:
        """The answer to a request, as a message. See `UnderWay.answer`."""
        refused = self._in_flight.rejection(request.id)
        return refused or await self._in_flight.run(request.id, self._dispatch(request, context, tell))

    async def _dispatch(self, request: RpcRequest, context: CallContext, tell: SendMessage | None) -> bytes:
        method, params, revision = request.method, request.params, self.revision
        if method == "initialize":
            return self._initialize(params)
        if revision is None:
            if method != "ping":
                raise RpcError(INVALID_REQUEST, "shake hands first: `initialize`")
            return b"{}"
        if method == "logging/setLevel":
            return self._set_level(params)
        exchange = McpExchange(
            context,
            revision,
            self._elicitation_modes,
            self._level,
            tell,
            request.id,
            subscriber=self._watcher,
            next_elicitation_id=self._next_id,
        )
        if tell is not None and self._elicitation_modes is not NO_ELICITATION:
            exchange.elicit = lambda asked, _: self._elicit(asked, tell)
        return await self._methods.dispatch(exchange, method, params)

    def _initialize(self, params: Mapping[str, Any]) -> bytes:
        """Shake hands. A revision that we do not know is answered with our newest: the client goes, or takes it."""
        if self.revision is not None:
            raise RpcError(INVALID_REQUEST, "we have shaken hands already")
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RpcError(INVALID_PARAMS, "`protocolVersion` is not text")
        revision = self.revision = HANDSHAKE_REVISIONS.get(wanted) or HANDSHAKE_REVISIONS[NEWEST_HANDSHAKE_REVISION]
        self._elicitation_modes = parse_elicitation_modes(revision, params.get("capabilities"))
        told = {
            "protocolVersion": revision.name,
            "serverInfo": SERVER_INFO,
            **self._methods.initialize_result(revision),
        }
        return orjson.dumps(told)

    def _set_level(self, params: Mapping[str, Any]) -> bytes:
        level = params.get("level")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"{printable(str(level), 40)} is none of {', '.join(LOG_LEVELS)}")
        self._level = cast("str", level)
        return b"{}"

    def _next_id(self) -> str:
        self._count += 1
        return f"paddock-{self._count}"

    async def _elicit(self, params: Mapping[str, Any], tell: SendMessage) -> Any:
        """Ask the client something, under an id of our own, and wait for what it says."""
        number = self._next_id()
        waiting = self._pending_questions[number] = asyncio.get_running_loop().create_future()
        tell(orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}))
        try:
            return await waiting
        except asyncio.CancelledError:
            tell(encode_notification("notifications/cancelled", {"requestId": number, "reason": "nobody waits for it"}))
            raise
        finally:
            self._pending_questions.pop(number, None)

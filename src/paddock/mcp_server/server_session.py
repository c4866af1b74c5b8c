"""A client session that started with a handshake: negotiated revision, in-flight requests and open elicitations."""

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
    """The server's side of one client session.

    Args:
        methods: Answers requests.
        send: Sends messages that belong to no request.
        context: Returns the client's current context for those.
    """

    def __init__(self, methods: McpMethods, send: SendMessage, context: ContextProvider) -> None:
        self._methods = methods
        self._subscriber = Subscriber(send, context)
        self.revision: ProtocolRevision | None = None  # None before the handshake
        self._elicitation_modes: ElicitationModes = NO_ELICITATION
        self._log_level: str | None = None  # None until the client sets one
        self._in_flight = InFlightRequests()
        self._pending_questions: dict[str, asyncio.Future[Any]] = {}
        self._last_id = 0

    @property
    def busy(self) -> bool:
        """Whether requests are in progress."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Cancel all requests and subscriptions of a client that is gone."""
        self._in_flight.close()
        self._subscriber.close()

    def receive(self, message: RpcNotification | RpcResult | RpcFailure) -> None:
        """Handle a message without a response: a notification, or the result of an elicitation."""
        match message:
            case RpcNotification("notifications/cancelled", params):
                self._in_flight.cancel(params.get("requestId"))
            case RpcNotification():
                pass
            case RpcResult(request_id, value):
                self._resolve_question(request_id, value)
            case RpcFailure(request_id, _):
                self._resolve_question(request_id, None)

    def _resolve_question(self, request_id: MessageId | None, value: Any) -> None:
        future = self._pending_questions.pop(request_id, None) if isinstance(request_id, str) else None
        if future is not None and not future.done():
            future.set_result(value)

    async def handle_request(self, request: RpcRequest, context: CallContext, send: SendMessage | None) -> bytes:
        """Return the encoded response to a request. See `InFlightRequests.run`."""
        rejection = self._in_flight.rejection(request.id)
        return rejection or await self._in_flight.run(request.id, self._dispatch(request, context, send))

    async def _dispatch(self, request: RpcRequest, context: CallContext, send: SendMessage | None) -> bytes:
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
            self._log_level,
            send,
            request.id,
            elicit=None
            if send is None or self._elicitation_modes is NO_ELICITATION
            else lambda elicitation, _: self._elicit(elicitation, send),
            subscriber=self._subscriber,
            next_elicitation_id=self._next_id,
        )
        return await self._methods.dispatch(exchange, method, params)

    def _initialize(self, params: Mapping[str, Any]) -> bytes:
        """Negotiate the revision. An unknown one is answered with our newest: the client accepts it or leaves."""
        if self.revision is not None:
            raise RpcError(INVALID_REQUEST, "we have shaken hands already")
        requested = params.get("protocolVersion")
        if not isinstance(requested, str):
            raise RpcError(INVALID_PARAMS, "`protocolVersion` is not text")
        revision = self.revision = HANDSHAKE_REVISIONS.get(requested) or HANDSHAKE_REVISIONS[NEWEST_HANDSHAKE_REVISION]
        self._elicitation_modes = parse_elicitation_modes(revision, params.get("capabilities"))
        result = {
            "protocolVersion": revision.name,
            "serverInfo": SERVER_INFO,
            **self._methods.initialize_result(revision),
        }
        return orjson.dumps(result)

    def _set_level(self, params: Mapping[str, Any]) -> bytes:
        level = params.get("level")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"{printable(str(level), 40)} is none of {', '.join(LOG_LEVELS)}")
        self._log_level = cast("str", level)
        return b"{}"

    def _next_id(self) -> str:
        self._last_id += 1
        return f"paddock-{self._last_id}"

    async def _elicit(self, params: Mapping[str, Any], send: SendMessage) -> Any:
        """Send an elicitation request under an id of our own, and wait for its result."""
        request_id = self._next_id()
        future = self._pending_questions[request_id] = asyncio.get_running_loop().create_future()
        send(orjson.dumps({"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": params}))
        try:
            return await future
        except asyncio.CancelledError:
            send(
                encode_notification(
                    "notifications/cancelled", {"requestId": request_id, "reason": "nobody waits for it"}
                )
            )
            raise
        finally:
            self._pending_questions.pop(request_id, None)

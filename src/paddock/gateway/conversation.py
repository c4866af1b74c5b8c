"""One client that began with a handshake: what was agreed on, what is under way, and what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import orjson

from paddock.core.call import CallContext
from paddock.core.printable import printable
from paddock.gateway.exchange import ContextNow, Exchange, Tell, Watcher, notification
from paddock.gateway.methods import Methods
from paddock.gateway.revisions import HANDSHAKE, LEVELS, NEWEST_HANDSHAKE, NOTHING, Asks, Revision, asks_of
from paddock.gateway.tool_results import SERVER
from paddock.gateway.under_way import UnderWay
from paddock.rpc.faults import INVALID_PARAMS, INVALID_REQUEST, RpcFault
from paddock.rpc.message import Failure, MessageId, Notification, Request, Result


class Conversation:
    """A client and we.

    Args:
        methods: Answers requests.
        tell: Sends the client what belongs to none of its requests.
        context: Who the client is when it is told that.
    """

    def __init__(self, methods: Methods, tell: Tell, context: ContextNow) -> None:
        self._methods = methods
        self._watcher = Watcher(tell, context)
        self.revision: Revision | None = None  # until they have shaken hands
        self._asks: Asks = NOTHING
        self._level: str | None = None  # whoever wants log messages says so
        self._under_way = UnderWay()
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._count = 0

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self._under_way)

    def close(self) -> None:
        """The client is gone, and nobody wants what is under way."""
        self._under_way.close()
        self._watcher.close()

    def hear(self, message: Notification | Result | Failure) -> None:
        """Something that wants no answer: news, or the answer to a question of ours."""
        match message:
            case Notification("notifications/cancelled", params):
                self._under_way.cancel(params.get("requestId"))
            case Notification():
                pass
            case Result(number, value):
                self._answered(number, value)
            case Failure(number, _):
                self._answered(number, None)

    def _answered(self, number: MessageId | None, value: Any) -> None:
        waiting = self._asked.pop(number, None) if isinstance(number, str) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    async def answer(self, request: Request, context: CallContext, tell: Tell | None) -> bytes:
        """The answer to a request, as a message. See `UnderWay.answer`."""
        refused = self._under_way.refusal(request.id)
        return refused or await self._under_way.answer(request.id, self._served(request, context, tell))

    async def _served(self, request: Request, context: CallContext, tell: Tell | None) -> bytes:
        method, params, revision = request.method, request.params, self.revision
        if method == "initialize":
            return self._initialize(params)
        if revision is None:
            if method != "ping":
                raise RpcFault(INVALID_REQUEST, "shake hands first: `initialize`")
            return b"{}"
        if method == "logging/setLevel":
            return self._set_level(params)
        exchange = Exchange(
            context, revision, self._asks, self._level, tell, request.id, watcher=self._watcher, named=self._name
        )
        if tell is not None and self._asks is not NOTHING:
            exchange.put = lambda asked, _: self._put(asked, tell)
        return await self._methods.serve(exchange, method, params)

    def _initialize(self, params: Mapping[str, Any]) -> bytes:
        """Shake hands. A revision that we do not know is answered with our newest: the client goes, or takes it."""
        if self.revision is not None:
            raise RpcFault(INVALID_REQUEST, "we have shaken hands already")
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RpcFault(INVALID_PARAMS, "`protocolVersion` is not text")
        revision = self.revision = HANDSHAKE.get(wanted) or HANDSHAKE[NEWEST_HANDSHAKE]
        self._asks = asks_of(revision, params.get("capabilities"))
        told = {"protocolVersion": revision.name, "serverInfo": SERVER, **self._methods.greeting(revision)}
        return orjson.dumps(told)

    def _set_level(self, params: Mapping[str, Any]) -> bytes:
        level = params.get("level")
        if level not in LEVELS:
            raise RpcFault(INVALID_PARAMS, f"{printable(str(level), 40)} is none of {', '.join(LEVELS)}")
        self._level = cast("str", level)
        return b"{}"

    def _name(self) -> str:
        self._count += 1
        return f"paddock-{self._count}"

    async def _put(self, params: Mapping[str, Any], tell: Tell) -> Any:
        """Ask the client something, under an id of our own, and wait for what it says."""
        number = self._name()
        waiting = self._asked[number] = asyncio.get_running_loop().create_future()
        tell(orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}))
        try:
            return await waiting
        except asyncio.CancelledError:
            tell(notification("notifications/cancelled", {"requestId": number, "reason": "nobody waits for it"}))
            raise
        finally:
            self._asked.pop(number, None)

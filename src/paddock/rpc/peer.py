"""One side of a JSON-RPC conversation: asks and matches answers, is asked and answers, over any transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from paddock.core.errors import PaddockError
from paddock.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, RESOURCE_BUSY, PeerLost, RpcError, to_rpc_error
from paddock.rpc.message import (
    MalformedMessage,
    MessageId,
    NonRpcLine,
    RpcFailure,
    RpcNotification,
    RpcRequest,
    RpcResult,
    decode,
    encode_failure,
    encode_notification,
    encode_request,
    encode_result,
)
from paddock.rpc.transport import Transport

MAX_SERVING: Final = 32
"""How many requests of the other side are worked on at a time; one more is answered -32005."""

RESERVED_SLOTS: Final = 8
"""How many beyond these are worked on of requests that `passes`."""


REPLY_SENT: Final = object()
"""The result of a request that was answered early."""


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """A request that is being worked on.

    Attributes:
        id: Its number, or its name.
        early: Answers it at once, from whichever thread has the result, and tells whether that was possible. Then
            `SENT` is what serving it gives; where it was not, the result.
    """

    id: MessageId
    reply_early: Callable[[Any], bool]


class PeerHandler(Protocol):
    """Whom a peer serves. All but `serve` are called from the event loop, must be quick and must not raise."""

    async def serve(self, method: str, params: dict[str, Any], asked: InboundRequest) -> Any:
        """The answer to a request. An `RpcFault` or `PaddockError` becomes an error answer, anything else -32603."""
        ...

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """They sent a notification."""
        ...

    def noise(self, line: bytes) -> None:
        """They wrote a line that is no JSON-RPC."""
        ...

    def violated(self, kind: str, detail: str) -> None:
        """They broke a rule; whether that ends the connection is the owner's to say.

        After `oversize_message` and `too_dense` nothing more can be read. After the others the conversation goes on:
        `batch`, `malformed`, `too_deep`, `unknown_reply` (an answer to nothing we asked), `unaddressed_error` (an error
        without an id: they could not read something of ours), `duplicate_id` (two requests at once under one id) and
        `unread_answers` (they ask, and do not read what we answer).
        """
        ...

    def stalled(self) -> None:
        """They have read nothing for 10 seconds although something waits for them."""
        ...

    def lost(self, reason: str) -> None:
        """They are gone; every call that was under way has failed. Not called after our own `close`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest:
    """A request that was sent. The future ends with the answer, an `RpcFault` or `PeerLost`."""

    id: int
    future: asyncio.Future[Any]


class JsonRpcPeer:
    """Speaks for its owner over one transport, from `attach` until `close` or until the other side is gone.

    Ids are counted from 1, each side for itself. An answer that comes after its caller gave up, or comes twice, is
    dropped and counted in `late_replies`.

    Args:
        owner: Who answers requests and hears of the rest.
        max_serving: How many requests of the other side are worked on at a time.
        passes: Whether those may be waiting for this one, by its method and parameters, so that it must come through.
    """

    def __init__(
        self,
        owner: PeerHandler,
        *,
        max_serving: int = MAX_SERVING,
        passes: Callable[[str, Mapping[str, Any]], bool] = lambda _method, _params: False,
    ) -> None:
        self.late_replies = 0
        self._owner = owner
        self._max_serving = max_serving
        self._passes = passes
        self._transport: Transport | None = None
        self._closed: str | None = None
        self._last_id = 0
        self._pending: dict[MessageId | None, asyncio.Future[Any]] = {}
        self._late: dict[int, asyncio.Future[Any]] = {}  # detached from their callers
        self._serving: dict[MessageId, asyncio.Task[None]] = {}
        self._answered: set[asyncio.Task[None]] = set()  # early, and not over yet

    def attach(self, transport: Transport) -> None:
        """Begin the conversation. The transport is the peer's from now on."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        transport.start()

    @property
    def in_flight(self) -> int:
        """How many of our requests wait for an answer."""
        return len(self._pending)

    def request(self, method: str, params: dict[str, Any] | None = None) -> PendingRequest:
        """Ask. Whoever stops waiting calls `forget`.

        Raises:
            RpcFault: the request cannot be written or is too large (-32602), or they do not read (-32005).
            PeerLost: the conversation is over.
        """
        transport = self._open()
        id = self._last_id + 1  # noqa: A001
        transport.send(encode_request(id, method, params))
        self._last_id = id
        future = self._pending[id] = self._loop.create_future()
        return PendingRequest(id, future)

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Ask, and wait for the answer as long as the caller does.

        Raises:
            RpcFault: they answered with an error, or as for `request`.
            PeerLost: no answer will come.
        """
        pending = self.request(method, params)
        try:
            return await pending.future
        finally:
            self.forget(pending)

    def forget(self, pending: PendingRequest) -> None:
        """Nobody waits for this answer any more. Harmless when it has come."""
        if self._pending.pop(pending.id, None) is not None:
            pending.future.cancel()

    def detach(self, pending: PendingRequest) -> asyncio.Future[Any]:
        """Part the answer from its caller: `pending.future` is the caller's to end, and the returned one ends with the
        answer if it still comes, or with `PeerLost`. It is done already when the answer has come.

        Dropping what this returns is harmless.
        """
        late: asyncio.Future[Any] = self._loop.create_future()
        if self._pending.pop(pending.id, None) is not None:
            self._late[pending.id] = late
            late.add_done_callback(_mark_retrieved)
        else:
            late.set_result(None)
        return late

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Tell.

        Raises:
            RpcFault: as for `request`.
            PeerLost: the conversation is over.
        """
        self._open().send(encode_notification(method, params))

    def finish(self) -> None:
        """Say nothing more, and listen until they leave. Harmless when the conversation is over."""
        if self._closed is None and self._transport is not None:
            self._transport.finish()

    def close(self, reason: str) -> None:
        """End the conversation: what waits fails with `PeerLost(reason)`, what is being served is cancelled.

        Harmless when it is over already. The owner hears nothing more.
        """
        if self._closed is not None:
            return
        self._closed = reason
        if self._transport is not None:
            self._transport.close()
        for task in list(self._serving.values()):
            task.cancel()
        waiting = [*self._pending.values(), *self._late.values()]
        self._pending.clear()
        self._late.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(PeerLost(reason))
                _mark_retrieved(future)

    async def wait_closed(self) -> None:
        """After `close`: wait until nothing is being served any more and the transport has given everything back."""
        under_way = [*self._serving.values(), *self._answered]
        if under_way:
            await asyncio.wait(under_way)
        if self._transport is not None:
            await self._transport.wait_closed()

    # What the transport tells us.

    def frame_received(self, frame: bytes) -> None:
        message = decode(frame)
        if isinstance(message, (RpcResult, RpcFailure)):
            self._settle(message)
        elif isinstance(message, RpcRequest):
            self._begin(message)
        elif isinstance(message, RpcNotification):
            self._owner.notified(message.method, message.params)
        elif isinstance(message, NonRpcLine):
            self._owner.noise(frame)
        else:
            self._refuse(message)

    def violated(self, kind: str, detail: str) -> None:
        self._owner.violated(kind, detail)

    def stalled(self) -> None:
        self._owner.stalled()

    def lost(self, reason: str) -> None:
        if self._closed is None:
            self.close(reason)
            self._owner.lost(reason)

    # Answers to us.

    def _settle(self, answer: RpcResult | RpcFailure) -> None:
        future = self._pending.pop(answer.id, None)
        if future is None:
            self._unexpected(answer)
        elif future.done():  # its caller was cancelled and has not told us yet
            self.late_replies += 1
        else:
            _resolve(future, answer)

    def _unexpected(self, answer: RpcResult | RpcFailure) -> None:
        id = answer.id  # noqa: A001
        if type(id) is int and 0 < id <= self._last_id:
            self.late_replies += 1
            late = self._late.pop(id, None)
            if late is not None and not late.done():
                _resolve(late, answer)
            return
        if isinstance(answer, RpcFailure) and id is None:
            self._owner.violated("unaddressed_error", f"they could not read something of ours: {answer.fault.message}")
        else:
            self._owner.violated("unknown_reply", f"an answer to {id!r}, which was never asked")

    # Requests to us.

    def _begin(self, request: RpcRequest) -> None:
        id = request.id  # noqa: A001
        if id in self._serving:
            self._answer(encode_failure(id, RpcError(INVALID_REQUEST, "a request with this id is under way")))
            self._owner.violated("duplicate_id", f"two requests at once under the id {id!r}")
        elif len(self._serving) >= self._max_serving and not self._has_reserved(request):
            busy = f"{self._max_serving} requests are being worked on; try again"
            self._answer(encode_failure(id, RpcError(RESOURCE_BUSY, busy)))
        else:
            task = self._loop.create_task(self._serve(request))
            self._serving[id] = task
            task.add_done_callback(partial(self._served, id))

    def _served(self, id: MessageId, task: asyncio.Task[None]) -> None:  # noqa: A002
        self._answered.discard(task)
        if self._serving.get(id) is task:  # and not a later request, which may bear the id of one that is answered
            del self._serving[id]

    def _has_reserved(self, request: RpcRequest) -> bool:
        room = len(self._serving) < self._max_serving + RESERVED_SLOTS
        return room and self._passes(request.method, request.params)

    async def _serve(self, request: RpcRequest) -> None:
        id = request.id  # noqa: A001
        try:
            try:
                result = await self._owner.serve(
                    request.method, request.params, InboundRequest(id, partial(self._reply_early, id))
                )
                if result is REPLY_SENT:
                    return
                frame = encode_result(id, result)
            except RpcError as fault:
                frame = encode_failure(id, fault)
            except PaddockError as error:
                frame = encode_failure(id, to_rpc_error(error))
            except Exception as error:
                # Theirs to know that it failed, ours to know why.
                frame = encode_failure(id, RpcError(INTERNAL_ERROR, "internal error"))
                self._loop.call_exception_handler({"message": f"serving {request.method!r} failed", "exception": error})
            await self._deliver(frame)
        except PeerLost:
            pass  # nobody is left to read the answer

    def _reply_early(self, id: MessageId, result: Any) -> bool:  # noqa: A002
        """See `Asked`; on any thread."""
        transport, task = self._transport, self._serving.get(id)
        if self._closed is not None or transport is None or task is None:
            return False
        frame = encode_result(id, result)
        # First: their next request, which may bear the same id, can be here before the event loop hears of this.
        self._answered.add(task)
        self._serving.pop(id, None)
        if transport.send_at_once(frame):
            return True
        self._serving[id] = task
        self._answered.discard(task)
        return False

    async def _deliver(self, frame: bytes) -> None:
        """Send an answer as soon as there is room; until then it counts as being worked on."""
        transport = self._open()
        while True:
            try:
                return transport.send(frame)
            except RpcError:
                await transport.drained()

    def _refuse(self, message: MalformedMessage) -> None:
        if message.meant_as == "request":
            self._answer(encode_failure(message.id, RpcError(message.code, message.reason)))
        elif message.meant_as == "answer" and message.id is not None:
            future = self._pending.pop(message.id, None)
            if future is not None and not future.done():
                future.set_exception(RpcError(INTERNAL_ERROR, f"the answer was malformed: {message.reason}"))
        self._owner.violated(message.kind, message.reason)

    def _answer(self, frame: bytes) -> None:
        """Send a short answer that nothing waits behind."""
        try:
            self._open().send(frame)
        except RpcError as fault:
            self._owner.violated("unread_answers", fault.message)
        except PeerLost:
            pass

    def _open(self) -> Transport:
        if self._closed is not None:
            raise PeerLost(self._closed)
        if self._transport is None:
            raise PeerLost("the connection is not open")
        return self._transport


def _resolve(future: asyncio.Future[Any], answer: RpcResult | RpcFailure) -> None:
    if isinstance(answer, RpcResult):
        future.set_result(answer.value)
    else:
        future.set_exception(answer.fault)


def _mark_retrieved(future: asyncio.Future[Any]) -> None:
    """A caller that never looks at how it ended is no reason for a warning."""
    if not future.cancelled():
        future.exception()

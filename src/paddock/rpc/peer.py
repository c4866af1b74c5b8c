"""A JSON-RPC peer: sends requests and matches responses, serves requests, over any transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

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
"""How many requests of the other side are served at a time; one more is answered -32005."""

RESERVED_SLOTS: Final = 8
"""How many more are served of requests that `passes` accepts."""


REPLY_SENT: Final = object()
"""The result of a request that was answered early."""


class InboundRequest(Struct, frozen=True):
    """A request that is being served.

    Attributes:
        id: Its id.
        reply_early: Answers it at once, from any thread that has the result, and returns whether that was possible.
            Then the handler returns `REPLY_SENT`; where it was not, the result.
    """

    id: MessageId
    reply_early: Callable[[Any], bool]


class PeerHandler(Protocol):
    """The owner of a peer. All but `serve` are called from the event loop, must be quick and must not raise."""

    async def serve(self, method: str, params: dict[str, Any], request: InboundRequest, /) -> Any:
        """Serve a request. An `RpcError` or `PaddockError` becomes an error response, anything else -32603."""
        ...

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """They sent a notification."""
        ...

    def noise(self, line: bytes) -> None:
        """They wrote a line that is no JSON-RPC."""
        ...

    def violated(self, kind: str, detail: str) -> None:
        """They broke a rule; the owner decides whether that ends the connection.

        After `oversize_message` and `too_dense` nothing more can be read. After the others the connection goes on:
        `batch`, `malformed`, `too_deep`, `unknown_reply` (a response to no request of ours), `unaddressed_error` (an
        error
        without an id: they could not read a message of ours), `duplicate_id` (two requests at once under one id) and
        `unread_answers` (they send requests, and do not read our responses).
        """
        ...

    def stalled(self) -> None:
        """They have read nothing for 10 seconds although data is queued for them."""
        ...

    def lost(self, reason: str) -> None:
        """They are gone; every call in flight has failed. Not called after our own `close`."""
        ...


class PendingRequest(Struct, frozen=True, eq=False):
    """A request that was sent. The future ends with the result, an `RpcError` or `PeerLost`."""

    id: int
    future: asyncio.Future[Any]


class JsonRpcPeer:
    """One end of a JSON-RPC connection, from `attach` until `close` or until the other side is gone.

    Ids are counted from 1, each side for itself. A response that comes after its caller gave up, or comes twice, is
    dropped and counted in `late_replies`.

    Args:
        owner: Serves requests and gets all other events.
        max_serving: How many requests of the other side are served at a time.
        passes: Whether a request, by its method and parameters, must come through although the limit is reached,
            because those being served may wait for it.
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
        self._answered_early: set[asyncio.Task[None]] = set()  # answered early, and not finished yet

    def attach(self, transport: Transport) -> None:
        """Start on a transport, which the peer owns from now on."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        transport.start()

    @property
    def in_flight(self) -> int:
        """How many of our requests wait for a response."""
        return len(self._pending)

    def request(self, method: str, params: dict[str, Any] | None = None) -> PendingRequest:
        """Send a request. A caller that stops waiting calls `forget`.

        Raises:
            RpcError: The request cannot be encoded or is too large (-32602), or they do not read (-32005).
            PeerLost: The connection is over.
        """
        transport = self._require_open()
        id = self._last_id + 1  # noqa: A001
        transport.send(encode_request(id, method, params))
        self._last_id = id
        future = self._pending[id] = self._loop.create_future()
        return PendingRequest(id, future)

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request, and wait for the response as long as the caller does.

        Raises:
            RpcError: They answered with an error, or as for `request`.
            PeerLost: No response will come.
        """
        pending = self.request(method, params)
        try:
            return await pending.future
        finally:
            self.forget(pending)

    def forget(self, pending: PendingRequest) -> None:
        """Stop waiting for a response. Does nothing when it has come."""
        if self._pending.pop(pending.id, None) is not None:
            pending.future.cancel()

    def detach(self, pending: PendingRequest) -> asyncio.Future[Any]:
        """Detach the response from its caller.

        The caller must end `pending.future` itself. The returned future ends with the response if it still comes, or
        with
        `PeerLost`. It is done already when the response has come. Dropping it does no harm.
        """
        late: asyncio.Future[Any] = self._loop.create_future()
        if self._pending.pop(pending.id, None) is not None:
            self._late[pending.id] = late
            late.add_done_callback(_mark_retrieved)
        else:
            late.set_result(None)
        return late

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification.

        Raises:
            RpcError: As for `request`.
            PeerLost: The connection is over.
        """
        self._require_open().send(encode_notification(method, params))

    def finish(self) -> None:
        """Send nothing more, and receive until they leave. Does nothing when the connection is over."""
        if self._closed is None and self._transport is not None:
            self._transport.finish()

    def close(self, reason: str) -> None:
        """End the connection: what waits fails with `PeerLost(reason)`, what is being served is cancelled.

        Does nothing when it is over already. The owner gets no more events.
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
        """After `close`: wait until nothing is being served any more and the transport has released everything."""
        active = [*self._serving.values(), *self._answered_early]
        if active:
            await asyncio.wait(active)
        if self._transport is not None:
            await self._transport.wait_closed()

    # Callbacks of the transport.

    def frame_received(self, frame: bytes) -> None:
        message = decode(frame)
        if isinstance(message, (RpcResult, RpcFailure)):
            self._settle(message)
        elif isinstance(message, RpcRequest):
            self._start_serving(message)
        elif isinstance(message, RpcNotification):
            self._owner.notified(message.method, message.params)
        elif isinstance(message, NonRpcLine):
            self._owner.noise(frame)
        else:
            self._reject_malformed(message)

    def violated(self, kind: str, detail: str) -> None:
        self._owner.violated(kind, detail)

    def stalled(self) -> None:
        self._owner.stalled()

    def lost(self, reason: str) -> None:
        if self._closed is None:
            self.close(reason)
            self._owner.lost(reason)

    # Responses to us.

    def _settle(self, response: RpcResult | RpcFailure) -> None:
        future = self._pending.pop(response.id, None)
        if future is None:
            self._handle_unexpected(response)
        elif future.done():  # its caller was cancelled and has not called `forget` yet
            self.late_replies += 1
        else:
            _resolve(future, response)

    def _handle_unexpected(self, response: RpcResult | RpcFailure) -> None:
        id = response.id  # noqa: A001
        if type(id) is int and 0 < id <= self._last_id:
            self.late_replies += 1
            late = self._late.pop(id, None)
            if late is not None and not late.done():
                _resolve(late, response)
            return
        if isinstance(response, RpcFailure) and id is None:
            self._owner.violated(
                "unaddressed_error", f"they could not read something of ours: {response.error.message}"
            )
        else:
            self._owner.violated("unknown_reply", f"an answer to {id!r}, which was never asked")

    # Requests to us.

    def _start_serving(self, request: RpcRequest) -> None:
        id = request.id  # noqa: A001
        if id in self._serving:
            self._send_reply(encode_failure(id, RpcError(INVALID_REQUEST, "a request with this id is under way")))
            self._owner.violated("duplicate_id", f"two requests at once under the id {id!r}")
        elif len(self._serving) >= self._max_serving and not self._has_reserved(request):
            busy = f"{self._max_serving} requests are being worked on; try again"
            self._send_reply(encode_failure(id, RpcError(RESOURCE_BUSY, busy)))
        else:
            task = self._loop.create_task(self._serve(request))
            self._serving[id] = task
            task.add_done_callback(partial(self._serving_done, id))

    def _serving_done(self, id: MessageId, task: asyncio.Task[None]) -> None:  # noqa: A002
        self._answered_early.discard(task)
        if self._serving.get(id) is task:  # and not a later request, which may reuse the id of one that is answered
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
            except RpcError as rpc_error:
                frame = encode_failure(id, rpc_error)
            except PaddockError as error:
                frame = encode_failure(id, to_rpc_error(error))
            except Exception as error:
                # They learn that it failed; only we learn why.
                frame = encode_failure(id, RpcError(INTERNAL_ERROR, "internal error"))
                self._loop.call_exception_handler({"message": f"serving {request.method!r} failed", "exception": error})
            await self._deliver(frame)
        except PeerLost:
            pass  # no peer is left to read the response

    def _reply_early(self, id: MessageId, result: Any) -> bool:  # noqa: A002
        """See `InboundRequest`; on any thread."""
        transport, task = self._transport, self._serving.get(id)
        if self._closed is not None or transport is None or task is None:
            return False
        frame = encode_result(id, result)
        # First: their next request, which may reuse the id, can be here before the event loop runs again.
        self._answered_early.add(task)
        self._serving.pop(id, None)
        if transport.send_at_once(frame):
            return True
        self._serving[id] = task
        self._answered_early.discard(task)
        return False

    async def _deliver(self, frame: bytes) -> None:
        """Send a response as soon as there is room; until then it counts as being served."""
        transport = self._require_open()
        while True:
            try:
                return transport.send(frame)
            except RpcError:
                await transport.drained()

    def _reject_malformed(self, message: MalformedMessage) -> None:
        if message.meant_as == "request":
            self._send_reply(encode_failure(message.id, RpcError(message.code, message.reason)))
        elif message.meant_as == "answer" and message.id is not None:
            future = self._pending.pop(message.id, None)
            if future is not None and not future.done():
                future.set_exception(RpcError(INTERNAL_ERROR, f"the answer was malformed: {message.reason}"))
        self._owner.violated(message.kind, message.reason)

    def _send_reply(self, frame: bytes) -> None:
        """Send a short response that nothing waits for."""
        try:
            self._require_open().send(frame)
        except RpcError as fault:
            self._owner.violated("unread_answers", fault.message)
        except PeerLost:
            pass

    def _require_open(self) -> Transport:
        if self._closed is not None:
            raise PeerLost(self._closed)
        if self._transport is None:
            raise PeerLost("the connection is not open")
        return self._transport


def _resolve(future: asyncio.Future[Any], response: RpcResult | RpcFailure) -> None:
    if isinstance(response, RpcResult):
        future.set_result(response.value)
    else:
        future.set_exception(response.error)


def _mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Retrieve the exception, so that an unawaited future causes no warning."""
    if not future.cancelled():
        future.exception()

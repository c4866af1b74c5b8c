"""Suspended calls: calls of stateless clients that wait for answers to a plugin's questions.

The client gets the questions as the result, with a handle, and repeats the request with the answers. The plugin waits
meanwhile. A handle is random: it contains nothing to read or tamper with. It is valid once, for the caller that it was
given to, and for the same call.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import orjson
from msgspec.structs import replace

from paddock.mcp_server.exchange import McpExchange, RequestOwner, request_owner
from paddock.mcp_server.results import SERVER_INFO, SERVER_INFO_META_KEY
from paddock.rpc.errors import INVALID_PARAMS, RESOURCE_BUSY, RpcError
from paddock.rpc.message import RpcRequest

MAX_SUSPENDED_PER_OWNER: Final = 32
MAX_SUSPENDED_CALLS: Final = 1_000
MAX_QUESTION_KEY_CHARS: Final = 128
RESUME_TIMEOUT_S: Final = 900.0
"""Time for a client to return."""

ServeRequest: TypeAlias = Callable[[McpExchange, str, dict[str, Any]], Awaitable[bytes]]


class SuspendedCall:
    """A call that continues between the requests of its client."""

    def __init__(self, exchange: McpExchange, request: RpcRequest) -> None:
        self.exchange = replace(exchange, elicit=self.elicit)
        self.owner: RequestOwner = request_owner(exchange.context)
        self.request_key = _request_key(request)
        self.work: asyncio.Future[bytes] | None = None
        self.expiry_timer: asyncio.TimerHandle | None = None
        self._open_questions: dict[str, tuple[Mapping[str, Any], asyncio.Future[Any]]] = {}
        self._count = 0
        self._early_answers = _input_responses(request)
        self._wake = asyncio.Event()

    async def elicit(self, params: Mapping[str, Any], key: str) -> Any:
        """Have the client asked, and wait for the answer, which it may have sent already."""
        early: Any = self._early_answers.pop(key, None) if key else None
        if isinstance(early, dict):
            return cast("dict[str, Any]", early)
        question_id = (
            key if 0 < len(key) <= MAX_QUESTION_KEY_CHARS and key not in self._open_questions else self._unused_key()
        )
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open_questions[question_id] = (params, future)
        self._wake.set()
        try:
            return await future
        finally:
            self._open_questions.pop(question_id, None)

    def _unused_key(self) -> str:
        """Return a key that no open question has; plugins may choose any key."""
        self._count += 1
        while f"q{self._count}" in self._open_questions:
            self._count += 1
        return f"q{self._count}"

    def receive_answers(self, answers: Mapping[str, Any]) -> None:
        """Pass the client's answers on. Questions without an answer are asked again."""
        for question_id, (_, future) in tuple(self._open_questions.items()):
            if question_id in answers and not future.done():
                future.set_result(answers[question_id])
                del self._open_questions[question_id]

    async def next_outcome(self) -> bytes | None:
        """Return the result; None if the client must be asked.

        Raises:
            RpcError: the call failed.
        """
        work = self.work
        assert work is not None
        work.add_done_callback(lambda _: self._wake.set())
        try:
            while not work.done() and not self._open_questions:
                self._wake.clear()
                await self._wake.wait()
        except asyncio.CancelledError:
            work.cancel()  # the client has left
            raise
        return work.result() if work.done() else None

    def input_required_result(self, handle: str) -> bytes:
        """Build the result that carries the open questions."""
        questions = {
            question_id: {"method": "elicitation/create", "params": params}
            for question_id, (params, _) in self._open_questions.items()
        }
        result = {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": handle,
            "_meta": {SERVER_INFO_META_KEY: SERVER_INFO},
        }
        return orjson.dumps(result)

    def cancel(self) -> None:
        """Cancel a call whose client does not return."""
        if self.work is not None:
            self.work.cancel()


class SuspendedCalls:
    """All suspended calls, by handle."""

    def __init__(self) -> None:
        self._calls: dict[str, SuspendedCall] = {}

    async def handle(self, exchange: McpExchange, request: RpcRequest, serve: ServeRequest) -> bytes:
        """Return the result of a call, or the questions that its client must answer first.

        Raises:
            RpcError: it cannot be served, or the handle is not valid for this caller and call.
        """
        handle: Any = request.params.get("requestState")
        if handle is None:
            call = SuspendedCall(exchange, request)
            call.work = asyncio.ensure_future(serve(call.exchange, request.method, request.params))
            call.work.add_done_callback(_consume_exception)
        else:
            call = self._resume(handle, exchange, request)
            call.receive_answers(_input_responses(request))
        result = await call.next_outcome()
        return result if result is not None else call.input_required_result(self._suspend(call))

    def _resume(self, handle: Any, exchange: McpExchange, request: RpcRequest) -> SuspendedCall:
        call = self._calls.get(handle) if isinstance(handle, str) else None
        if call is None or call.owner != request_owner(exchange.context) or call.request_key != _request_key(request):
            raise RpcError(INVALID_PARAMS, "`requestState` is not known for this request: make it without one")
        del self._calls[handle]
        if call.expiry_timer is not None:
            call.expiry_timer.cancel()
        call.exchange.send_to(exchange.send)
        return call

    def _suspend(self, call: SuspendedCall) -> str:
        owned = sum(other.owner == call.owner for other in self._calls.values())
        if owned >= MAX_SUSPENDED_PER_OWNER or len(self._calls) >= MAX_SUSPENDED_CALLS:
            call.cancel()
            raise RpcError(RESOURCE_BUSY, "too many calls wait for answers already")
        call.exchange.send_to(None)
        handle = secrets.token_urlsafe(32)
        self._calls[handle] = call
        call.expiry_timer = asyncio.get_running_loop().call_later(RESUME_TIMEOUT_S, self._expire, handle)
        return handle

    def _expire(self, handle: str) -> None:
        call = self._calls.pop(handle, None)
        if call is not None:
            call.cancel()

    def close(self) -> None:
        """Cancel all suspended calls."""
        for handle in tuple(self._calls):
            self._expire(handle)


def _request_key(request: RpcRequest) -> tuple[Any, ...]:
    """Return what identifies a call across requests."""
    params = request.params
    return request.method, params.get("name"), params.get("arguments"), params.get("uri")


def _input_responses(request: RpcRequest) -> dict[str, Any]:
    responses: Any = request.params.get("inputResponses")
    return dict(cast("dict[str, Any]", responses)) if isinstance(responses, dict) else {}


def _consume_exception(work: asyncio.Future[bytes]) -> None:
    """Mark the exception as retrieved: a client that returns gets it, otherwise it is irrelevant."""
    if not work.cancelled():
        work.exception()

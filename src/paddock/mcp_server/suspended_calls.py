"""Calls whose plugins asked something, while clients that keep nothing go and find out.

Such a client gets the questions as the result, with a handle, and makes the same request again with the answers. The
plugin waits meanwhile. A handle is chance alone: there is nothing in it that could be read or changed. It is good once,
for the caller that it was given to, and for the same call.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import orjson

from paddock.mcp_server.exchange import McpExchange, RequestOwner, request_owner
from paddock.mcp_server.results import SERVER_INFO, SERVER_INFO_META_KEY
from paddock.rpc.errors import INVALID_PARAMS, RESOURCE_BUSY, RpcError
from paddock.rpc.message import RpcRequest

MAX_SUSPENDED_PER_OWNER: Final = 32
MAX_SUSPENDED_CALLS: Final = 1_000
MAX_QUESTION_KEY_CHARS: Final = 128
RESUME_TIMEOUT_S: Final = 900.0
"""Seconds for a client to come back."""

ServeRequest: TypeAlias = Callable[[McpExchange, str, dict[str, Any]], Awaitable[bytes]]


class SuspendedCall:
    """One call that goes on while its client comes and goes."""

    def __init__(self, exchange: McpExchange, request: RpcRequest) -> None:
        self.exchange = exchange
        self.owner: RequestOwner = request_owner(exchange.context)
        self.request_key = _request_key(request)
        self.work: asyncio.Future[bytes] | None = None
        self.expiry_timer: asyncio.TimerHandle | None = None
        self._open_questions: dict[str, tuple[Mapping[str, Any], asyncio.Future[Any]]] = {}
        self._count = 0
        self._early_answers = _input_responses(request)
        self._wake = asyncio.Event()

    async def elicit(self, params: Mapping[str, Any], key: str) -> Any:
        """Have the client asked, and wait for what it says. It may have said it already."""
        early: Any = self._early_answers.pop(key, None) if key else None
        if isinstance(early, dict):
            return cast("dict[str, Any]", early)
        number = (
            key if 0 < len(key) <= MAX_QUESTION_KEY_CHARS and key not in self._open_questions else self._unused_key()
        )
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open_questions[number] = (params, waiting)
        self._wake.set()
        try:
            return await waiting
        finally:
            self._open_questions.pop(number, None)

    def _unused_key(self) -> str:
        """A name that no open question has; a plugin may give its own any name."""
        self._count += 1
        while f"q{self._count}" in self._open_questions:
            self._count += 1
        return f"q{self._count}"

    def receive_answers(self, answers: Mapping[str, Any]) -> None:
        """What the client found out. What it did not say is asked again."""
        for number, (_, waiting) in tuple(self._open_questions.items()):
            if number in answers and not waiting.done():
                waiting.set_result(answers[number])
                del self._open_questions[number]

    async def next_outcome(self) -> bytes | None:
        """The result; or nothing where the client is to be asked.

        Raises:
            RpcFault: there is none.
        """
        work = self.work
        assert work is not None
        work.add_done_callback(lambda _: self._wake.set())
        try:
            while not work.done() and not self._open_questions:
                self._wake.clear()
                await self._wake.wait()
        except asyncio.CancelledError:
            work.cancel()  # nobody waits for it any more
            raise
        return work.result() if work.done() else None

    def input_required_result(self, handle: str) -> bytes:
        """What the client is to find out, as a result."""
        asked = {
            number: {"method": "elicitation/create", "params": params}
            for number, (params, _) in self._open_questions.items()
        }
        told = {
            "resultType": "input_required",
            "inputRequests": asked,
            "requestState": handle,
            "_meta": {SERVER_INFO_META_KEY: SERVER_INFO},
        }
        return orjson.dumps(told)

    def cancel(self) -> None:
        """Nobody comes back for it."""
        if self.work is not None:
            self.work.cancel()


class SuspendedCalls:
    """All of them, by handle."""

    def __init__(self) -> None:
        self._calls: dict[str, SuspendedCall] = {}

    async def handle(self, exchange: McpExchange, request: RpcRequest, serve: ServeRequest) -> bytes:
        """The result of a call, or what its client has to find out before there is one.

        Raises:
            RpcFault: it cannot be served, or the handle is none that this caller has for this call.
        """
        handle: Any = request.params.get("requestState")
        if handle is None:
            call = SuspendedCall(exchange, request)
            exchange.elicit = call.elicit
            call.work = asyncio.ensure_future(serve(exchange, request.method, request.params))
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
        call.exchange.send = exchange.send
        return call

    def _suspend(self, call: SuspendedCall) -> str:
        theirs = sum(one.owner == call.owner for one in self._calls.values())
        if theirs >= MAX_SUSPENDED_PER_OWNER or len(self._calls) >= MAX_SUSPENDED_CALLS:
            call.cancel()
            raise RpcError(RESOURCE_BUSY, "too many calls wait for answers already")
        call.exchange.send = None
        handle = secrets.token_urlsafe(32)
        self._calls[handle] = call
        call.expiry_timer = asyncio.get_running_loop().call_later(RESUME_TIMEOUT_S, self._expire, handle)
        return handle

    def _expire(self, handle: str) -> None:
        call = self._calls.pop(handle, None)
        if call is not None:
            call.cancel()

    def close(self) -> None:
        """Give all of them up."""
        for handle in tuple(self._calls):
            self._expire(handle)


def _request_key(request: RpcRequest) -> tuple[Any, ...]:
    """What tells one call from another."""
    params = request.params
    return request.method, params.get("name"), params.get("arguments"), params.get("uri")


def _input_responses(request: RpcRequest) -> dict[str, Any]:
    found: Any = request.params.get("inputResponses")
    return dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}


def _consume_exception(work: asyncio.Future[bytes]) -> None:
    """Whoever comes back for it hears of its failure; where nobody does, nobody has to."""
    if not work.cancelled():
        work.exception()

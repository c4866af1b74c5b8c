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

from paddock.gateway.exchange import Exchange
from paddock.gateway.owners import Owner, owner_of
from paddock.gateway.tool_results import SERVER, SERVER_KEY
from paddock.rpc.faults import INVALID_PARAMS, RESOURCE_BUSY, RpcFault
from paddock.rpc.message import Request

MOST_OF_ONE: Final = 32
MOST: Final = 1_000
LONGEST_KEY: Final = 128
PATIENCE: Final = 900.0
"""Seconds for a client to come back."""

Serve: TypeAlias = Callable[[Exchange, str, dict[str, Any]], Awaitable[bytes]]


class WaitingCall:
    """One call that goes on while its client comes and goes."""

    def __init__(self, exchange: Exchange, request: Request) -> None:
        self.exchange = exchange
        self.owner: Owner = owner_of(exchange.context)
        self.asked_for = _asked_for(request)
        self.work: asyncio.Future[bytes] | None = None
        self.until: asyncio.TimerHandle | None = None
        self._open: dict[str, tuple[Mapping[str, Any], asyncio.Future[Any]]] = {}
        self._count = 0
        self._early = _answers(request)
        self._turn = asyncio.Event()

    async def put(self, params: Mapping[str, Any], key: str) -> Any:
        """Have the client asked, and wait for what it says. It may have said it already."""
        early: Any = self._early.pop(key, None) if key else None
        if isinstance(early, dict):
            return cast("dict[str, Any]", early)
        number = key if 0 < len(key) <= LONGEST_KEY and key not in self._open else self._free()
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[number] = (params, waiting)
        self._turn.set()
        try:
            return await waiting
        finally:
            self._open.pop(number, None)

    def _free(self) -> str:
        """A name that no open question has; a plugin may give its own any name."""
        self._count += 1
        while f"q{self._count}" in self._open:
            self._count += 1
        return f"q{self._count}"

    def answer(self, answers: Mapping[str, Any]) -> None:
        """What the client found out. What it did not say is asked again."""
        for number, (_, waiting) in tuple(self._open.items()):
            if number in answers and not waiting.done():
                waiting.set_result(answers[number])
                del self._open[number]

    async def next(self) -> bytes | None:
        """The result; or nothing where the client is to be asked.

        Raises:
            RpcFault: there is none.
        """
        work = self.work
        assert work is not None
        work.add_done_callback(lambda _: self._turn.set())
        try:
            while not work.done() and not self._open:
                self._turn.clear()
                await self._turn.wait()
        except asyncio.CancelledError:
            work.cancel()  # nobody waits for it any more
            raise
        return work.result() if work.done() else None

    def questions(self, handle: str) -> bytes:
        """What the client is to find out, as a result."""
        asked = {
            number: {"method": "elicitation/create", "params": params} for number, (params, _) in self._open.items()
        }
        told = {
            "resultType": "input_required",
            "inputRequests": asked,
            "requestState": handle,
            "_meta": {SERVER_KEY: SERVER},
        }
        return orjson.dumps(told)

    def end(self) -> None:
        """Nobody comes back for it."""
        if self.work is not None:
            self.work.cancel()


class WaitingCalls:
    """All of them, by handle."""

    def __init__(self) -> None:
        self._calls: dict[str, WaitingCall] = {}

    async def result(self, exchange: Exchange, request: Request, serve: Serve) -> bytes:
        """The result of a call, or what its client has to find out before there is one.

        Raises:
            RpcFault: it cannot be served, or the handle is none that this caller has for this call.
        """
        handle: Any = request.params.get("requestState")
        if handle is None:
            call = WaitingCall(exchange, request)
            exchange.put = call.put
            call.work = asyncio.ensure_future(serve(exchange, request.method, request.params))
            call.work.add_done_callback(_seen)
        else:
            call = self._claimed(handle, exchange, request)
            call.answer(_answers(request))
        result = await call.next()
        return result if result is not None else call.questions(self._kept(call))

    def _claimed(self, handle: Any, exchange: Exchange, request: Request) -> WaitingCall:
        call = self._calls.get(handle) if isinstance(handle, str) else None
        if call is None or call.owner != owner_of(exchange.context) or call.asked_for != _asked_for(request):
            raise RpcFault(INVALID_PARAMS, "`requestState` is not known for this request: make it without one")
        del self._calls[handle]
        if call.until is not None:
            call.until.cancel()
        call.exchange.tell = exchange.tell
        return call

    def _kept(self, call: WaitingCall) -> str:
        theirs = sum(one.owner == call.owner for one in self._calls.values())
        if theirs >= MOST_OF_ONE or len(self._calls) >= MOST:
            call.end()
            raise RpcFault(RESOURCE_BUSY, "too many calls wait for answers already")
        call.exchange.tell = None
        handle = secrets.token_urlsafe(32)
        self._calls[handle] = call
        call.until = asyncio.get_running_loop().call_later(PATIENCE, self._forget, handle)
        return handle

    def _forget(self, handle: str) -> None:
        call = self._calls.pop(handle, None)
        if call is not None:
            call.end()

    def close(self) -> None:
        """Give all of them up."""
        for handle in tuple(self._calls):
            self._forget(handle)


def _asked_for(request: Request) -> tuple[Any, ...]:
    """What tells one call from another."""
    params = request.params
    return request.method, params.get("name"), params.get("arguments"), params.get("uri")


def _answers(request: Request) -> dict[str, Any]:
    found: Any = request.params.get("inputResponses")
    return dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}


def _seen(work: asyncio.Future[bytes]) -> None:
    """Whoever comes back for it hears of its failure; where nobody does, nobody has to."""
    if not work.cancelled():
        work.exception()

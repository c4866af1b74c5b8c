"""Runs a handler's return value to its end: a value, a coroutine, or a generator of either kind.

Everything is written as coroutines and works in two modes. Without an event loop, `run` drives a coroutine here: it can
wait only for the host, and that wait blocks. On an event loop, it is an ordinary task among others.

The mode is known when the handler returns: synchronous code never needs a loop, and anything that must be awaited may
need one. So a worker starts without a loop (`run_until_loop`). A coroutine that requests one, right before it awaits
what the handler returned, is continued on a loop.
"""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Generator
from typing import Any, NamedTuple, TypeVar, cast

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import Cancelled

T = TypeVar("T")

NEEDS_EVENT_LOOP = "this awaits what only an event loop brings; run it with asyncio.run"
_LOOP_REQUEST: Any = object()  # yielded to request an event loop
_NO_STEP: Any = object()
_RESULT_TYPES = (dict, list, str, int, type(None))  # types that most handlers return, checked first


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing but the host, and return its result.

    If it awaits anything that needs an event loop, a RuntimeError is raised at that point inside the coroutine.
    """
    try:
        awaited = coroutine.send(None)
        while True:
            # None only yields to other tasks, and there are none. A loop request is optional.
            idle = awaited is None or awaited is _LOOP_REQUEST
            awaited = coroutine.send(None) if idle else coroutine.throw(RuntimeError(NEEDS_EVENT_LOOP))
    except StopIteration as stop:
        return stop.value
    finally:
        coroutine.close()


def run_until_loop(coroutine: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine until it requests an event loop; returns whether it finished without one.

    A coroutine that did not finish is continued as a task on a loop, which then runs everything that the handler
    awaits.
    """
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False


def run_in_call(coroutine: Coroutine[Any, Any, T], finish_on_loop: Callable[[Coroutine[Any, Any, T]], T]) -> T:
    """Run a coroutine and return its result, on an event loop from the moment that it requests one.

    Inside a loop that runs already, as in an async test, there cannot be another: then it can wait only for the host.
    """
    if _is_loop_running():
        return run(coroutine)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    return finish_on_loop(coroutine)


@types.coroutine
def require_event_loop() -> Generator[Any, None, None]:
    """Continue on an event loop, if the driver can provide one."""
    if not _is_loop_running():
        yield _LOOP_REQUEST


def _is_loop_running() -> bool:
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


def is_result_step(step: Any) -> bool:
    """Whether a step declares itself the result: `{"type": "result", …}`."""
    return isinstance(step, dict) and cast("JsonObject", step).get("type") == "result"


def data_event(step: Any) -> JsonObject:
    """Wrap a step in an event."""
    return {"type": "data", "data": step}


class Stream(NamedTuple):
    """The destination of a generator's steps.

    Attributes:
        send_event: Sends one event.
        cancelled: Whether the call was cancelled.
        is_result: Whether a step looks like the result; it is the result if no other step follows.
        event_of: Converts a step to an event.
    """

    send_event: Callable[[JsonObject], None]
    cancelled: Callable[[], Awaitable[bool]]
    is_result: Callable[[Any], bool] = is_result_step
    event_of: Callable[[Any], JsonObject] = data_event


def is_pending(value: Any) -> bool:
    """Whether a handler's return value still has to be awaited or iterated."""
    return type(value) not in _RESULT_TYPES and (
        isinstance(value, types.GeneratorType)
        or hasattr(value, "__await__")
        or hasattr(value, "__anext__")
        or hasattr(value, "__aiter__")
    )


async def resolve_result(value: Any, stream: Stream) -> Any:
    """Return the result of a handler's return value. Steps of a generator are sent as they come.

    The result of a generator is its return value. One that returns nothing, as async generators do, may yield the
    result as its last step: `{"type": "result", "result": …}`, or another form that the stream accepts.
    """
    if not is_pending(value):
        return value
    if isinstance(value, types.GeneratorType):
        steps = cast("Generator[Any, None, Any]", value)
        try:
            return await _stream_steps(lambda stop: _step(steps, stop), stream)
        finally:
            steps.close()
    await require_event_loop()
    if hasattr(value, "__await__"):
        return await resolve_result(await value, stream)
    is_generator = isinstance(value, types.AsyncGeneratorType)
    async_steps = cast("AsyncGenerator[Any, None]", value) if is_generator else _iterate_steps(value)
    try:
        return await _stream_steps(lambda stop: _async_step(async_steps, stop), stream)
    finally:
        await async_steps.aclose()


class _Ended(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


async def _step(steps: Generator[Any, None, Any], stop: bool) -> Any:
    try:
        # Raised at the handler's own yield, so that it can clean up, or finish with what it has.
        return steps.throw(Cancelled()) if stop else next(steps)
    except StopIteration as end:
        raise _Ended(end.value) from None


async def _async_step(steps: AsyncGenerator[Any, None], stop: bool) -> Any:
    try:
        return await (steps.athrow(Cancelled()) if stop else anext(steps))
    except StopAsyncIteration:
        raise _Ended(None) from None


async def _iterate_steps(steps: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    async for step in steps:
        yield step


async def _stream_steps(advance: Callable[[bool], Awaitable[Any]], stream: Stream) -> Any:
    candidate = _NO_STEP  # a possible result, until another step follows it
    stop = False
    try:
        while True:
            step = await advance(stop)
            if candidate is not _NO_STEP:
                stream.send_event(stream.event_of(candidate))
                candidate = _NO_STEP
            if stream.is_result(step):
                candidate = step
            else:
                stream.send_event(stream.event_of(step))
            stop = await stream.cancelled()
    except _Ended as ended:
        return ended.value if candidate is _NO_STEP or ended.value is not None else _step_result(candidate)


def _step_result(step: Any) -> Any:
    """Return the result of a last step: its `result`, or all fields but `type`."""
    if not is_result_step(step):
        return step
    return step["result"] if set(step) == {"type", "result"} else {k: v for k, v in step.items() if k != "type"}

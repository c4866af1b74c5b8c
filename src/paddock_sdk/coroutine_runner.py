"""What a handler gave back, run to its end: a value, a coroutine, or a generator of either kind.

Everything is written as coroutines and works in two ways. Without an event loop a coroutine is driven here (`run`): all
that it can wait for is the host, and that wait blocks. On a loop it is an ordinary task among others.

Which way a handler needs is known when it gives something back: code that is not async never needs a loop, and whatever
has to be awaited may. So a worker begins without one (`begin`), and a coroutine that asks for a loop right before it
awaits what the handler gave back is continued on one.
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
_LOOP_REQUEST: Any = object()  # what is yielded to ask for one
_NO_STEP: Any = object()
_RESULT_TYPES = (dict, list, str, int, type(None))  # what most handlers give back, known at a glance


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing but the host.

    Where it awaits something else, which only an event loop could bring, a RuntimeError is raised at that place in it.
    """
    try:
        waits_for = coroutine.send(None)
        while True:
            # With None it only gave way to others, and there are none. A loop is only a wish.
            idle = waits_for is None or waits_for is _LOOP_REQUEST
            waits_for = coroutine.send(None) if idle else coroutine.throw(RuntimeError(NEEDS_EVENT_LOOP))
    except StopIteration as end:
        return end.value
    finally:
        coroutine.close()


def run_until_loop(coroutine: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine until it asks for an event loop; tells whether it ended without.

    One that did not end is continued as a task on a loop, which then has all of what the handler awaits.
    """
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False


@types.coroutine
def require_event_loop() -> Generator[Any, None, None]:
    """Be on an event loop from here on, where whoever drives this can bring one."""
    events = sys.modules.get("asyncio.events")
    if events is None or events._get_running_loop() is None:
        yield _LOOP_REQUEST


def is_result_step(step: Any) -> bool:
    """Whether a step says of itself that it is the result: `{"type": "result", …}`."""
    return isinstance(step, dict) and cast("JsonObject", step).get("type") == "result"


def data_event(step: Any) -> JsonObject:
    """A step as an event that holds it."""
    return {"type": "data", "data": step}


class Stream(NamedTuple):
    """Where the steps of a generator go.

    Attributes:
        tell: Sends one event.
        cancelled: Whether nobody wants the rest.
        is_result: Whether a step looks like the result; the last such step is it, if nothing follows.
        event_of: A step as an event.
    """

    send_event: Callable[[JsonObject], None]
    cancelled: Callable[[], Awaitable[bool]]
    is_result: Callable[[Any], bool] = is_result_step
    event_of: Callable[[Any], JsonObject] = data_event


def is_pending(value: Any) -> bool:
    """Whether what a handler gave back is not its result yet."""
    return type(value) not in _RESULT_TYPES and (
        isinstance(value, types.GeneratorType)
        or hasattr(value, "__await__")
        or hasattr(value, "__anext__")
        or hasattr(value, "__aiter__")
    )


async def resolve_result(value: Any, stream: Stream) -> Any:
    """The result of what a handler gave back. Steps of a generator go out as they come.

    A generator's result is what it returns. One that returns nothing, as an async one always does, may yield the result
    as its last step: `{"type": "result", "result": …}`, or what else counts as one in the stream.
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
    generator = isinstance(value, types.AsyncGeneratorType)
    following = cast("AsyncGenerator[Any, None]", value) if generator else _iterate_steps(value)
    try:
        return await _stream_steps(lambda stop: _async_step(following, stop), stream)
    finally:
        await following.aclose()


class _Ended(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


async def _step(steps: Generator[Any, None, Any], stop: bool) -> Any:
    try:
        # Raised at its own yield, so that the handler can clean up, or bring what it has to an end.
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
    held = _NO_STEP  # what may be the result, until another step follows it
    stop = False
    try:
        while True:
            step = await advance(stop)
            if held is not _NO_STEP:
                stream.send_event(stream.event_of(held))
                held = _NO_STEP
            if stream.is_result(step):
                held = step
            else:
                stream.send_event(stream.event_of(step))
            stop = await stream.cancelled()
    except _Ended as end:
        return end.value if held is _NO_STEP or end.value is not None else _step_result(held)


def _step_result(step: Any) -> Any:
    """The result of a last step: its `result`, or all that it holds besides the mark."""
    if not is_result_step(step):
        return step
    return step["result"] if set(step) == {"type", "result"} else {k: v for k, v in step.items() if k != "type"}

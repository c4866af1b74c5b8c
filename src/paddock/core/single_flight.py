"""Single flight: concurrent callers of the same slow operation share one run of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Flight(Struct, Generic[T]):
    """The runs and the waiting callers of one key."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    started: int = 0  # number of runs so far
    last: tuple[int, T] | None = None  # number and result of the last run


class SingleFlight(Generic[K, T]):
    """Runs an operation at most once at a time for each key. No caller gets the result of a run that began before it
    asked.

    Args:
        operation: Runs once; its result may be shared by several callers, and none may change it.
    """

    def __init__(self, operation: Callable[[K], Awaitable[T]]) -> None:
        self._operation = operation
        self._flights: dict[K, _Flight[T]] = {}

    async def run(self, key: K) -> T:
        """The result of a run that began after this call; raises what the operation raises."""
        flight = self._flights.setdefault(key, _Flight())
        started_before = flight.started
        flight.waiting += 1
        try:
            async with flight.lock:
                if flight.last is not None and flight.last[0] > started_before:
                    return flight.last[1]
                flight.started += 1
                number = flight.started
                result = await self._operation(key)
                flight.last = (number, result)
                return result
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                del self._flights[key]


class SharedRuns(Generic[K, T]):
    """Runs of operations in tasks of their own; callers of the same key join a run that began a moment ago.

    For caches that are refreshed before they expire: a run needs no waiting caller.

    Args:
        monotonic: Gives the time, in seconds.
        max_age_s: How long ago a run may have begun for a caller to join it.
    """

    def __init__(self, monotonic: Callable[[], float], max_age_s: float) -> None:
        self._monotonic = monotonic
        self._max_age_s = max_age_s
        self._runs: dict[K, tuple[float, asyncio.Task[T]]] = {}  # with the time at which each began

    def start(self, key: K, operation: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the run that callers of this key join now; starts one if there is none."""
        now = self._monotonic()
        began, task = self._runs.get(key, (now, None))
        if task is None or now - began >= self._max_age_s:
            task = asyncio.create_task(operation())
            self._runs[key] = (now, task)
            task.add_done_callback(lambda done: self._on_done(key, done))
        return task

    async def join(self, key: K, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the run that callers of this key join now; raises what it raises."""
        # Shielded: a caller that is cancelled must not cancel the run for the others.
        return await asyncio.shield(self.start(key, operation))

    def clear(self) -> None:
        """Let no later caller join a run that began before."""
        self._runs.clear()

    def _on_done(self, key: K, done: asyncio.Task[T]) -> None:
        current = self._runs.get(key)
        if current is not None and current[1] is done:
            del self._runs[key]
        if not done.cancelled():
            done.exception()  # mark it as retrieved: callers that joined get it, and the next run raises its own

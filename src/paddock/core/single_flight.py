"""Single flight: concurrent callers of the same slow operation share one run of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
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

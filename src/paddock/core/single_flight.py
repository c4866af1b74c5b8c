"""Looks that take a while, shared by all who wait for one: however many ask, one is taken at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    """Those who wait to know the same."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    started: int = 0  # how many looks have
    last: tuple[int, T] | None = None  # which look it was, and what it found


class SingleFlight(Generic[K, T]):
    """Takes looks, one at a time for each key. Nobody is told what was found by one that began before they asked.

    Args:
        look: Takes one; what it finds may be given to several, and must be changed by none.
    """

    def __init__(self, look: Callable[[K], Awaitable[T]]) -> None:
        self._work = look
        self._flights: dict[K, _Flight[T]] = {}

    async def run(self, key: K) -> T:
        """What there is to see; raises what the look does."""
        turns = self._flights.setdefault(key, _Flight())
        asked = turns.started
        turns.waiting += 1
        try:
            async with turns.lock:
                if turns.last is not None and turns.last[0] > asked:
                    return turns.last[1]
                turns.started += 1
                number = turns.started
                found = await self._work(key)
                turns.last = (number, found)
                return found
        finally:
            turns.waiting -= 1
            if not turns.waiting:
                del self._flights[key]

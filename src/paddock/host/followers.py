"""Passing news on to however many follow it, without waiting for any of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Followers(Generic[T]):
    """Who follows which subject. One who does not keep up misses some of the news; nobody else notices.

    Args:
        room: How much may wait for one follower.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._queues: dict[str, set[asyncio.Queue[T]]] = {}

    def tell(self, subject: str, news: T) -> None:
        for queue in self._queues.get(subject, ()):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(news)

    def follow(self, subject: str) -> Following[T]:
        """The news from this moment on."""
        queue: asyncio.Queue[T] = asyncio.Queue(self._room)
        queues = self._queues.setdefault(subject, set())
        queues.add(queue)
        return Following(queue, queues)


class Following(Generic[T]):
    """One follower, to be iterated over and closed. Not a generator: one that was never begun could not be closed."""

    def __init__(self, queue: asyncio.Queue[T], queues: set[asyncio.Queue[T]]) -> None:
        self._queue = queue
        self._queues = queues

    def __aiter__(self) -> Following[T]:
        return self

    async def __anext__(self) -> T:
        return await self._queue.get()

    def skip_past(self, known: Callable[[T], bool]) -> None:
        """Leave out what waits up to the last piece of it that the follower knows already."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        new = next((number for number in range(len(waiting), 0, -1) if known(waiting[number - 1])), 0)
        for news in waiting[new:]:
            self._queue.put_nowait(news)

    async def aclose(self) -> None:
        """Follow no longer."""
        self._queues.discard(self._queue)

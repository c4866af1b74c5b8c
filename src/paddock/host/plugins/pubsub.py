"""Passing news on to however many follow it, without waiting for any of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PubSub(Generic[T]):
    """Who follows which subject. One who does not keep up misses some of the news; nobody else notices.

    Args:
        room: How much may wait for one follower.
    """

    def __init__(self, room: int) -> None:
        self._max_queued = room
        self._queues: dict[str, set[asyncio.Queue[T]]] = {}

    def publish(self, subject: str, news: T) -> None:
        for queue in self._queues.get(subject, ()):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(news)

    def subscribe(self, subject: str) -> Subscription[T]:
        """The news from this moment on."""
        queue: asyncio.Queue[T] = asyncio.Queue(self._max_queued)
        queues = self._queues.setdefault(subject, set())
        queues.add(queue)
        return Subscription(queue, queues)


class Subscription(Generic[T]):
    """One follower, to be iterated over and closed. Not a generator: one that was never begun could not be closed."""

    def __init__(self, queue: asyncio.Queue[T], queues: set[asyncio.Queue[T]]) -> None:
        self._queue = queue
        self._queues = queues

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        return await self._queue.get()

    def skip_known(self, known: Callable[[T], bool]) -> None:
        """Leave out what waits up to the last piece of it that the follower knows already."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        new = next((number for number in range(len(waiting), 0, -1) if known(waiting[number - 1])), 0)
        for news in waiting[new:]:
            self._queue.put_nowait(news)

    async def aclose(self) -> None:
        """Follow no longer."""
        self._queues.discard(self._queue)

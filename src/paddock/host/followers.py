"""Passing news on to however many follow it, without waiting for any of them."""

from __future__ import annotations

import asyncio
import contextlib
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

    async def aclose(self) -> None:
        """Follow no longer."""
        self._queues.discard(self._queue)

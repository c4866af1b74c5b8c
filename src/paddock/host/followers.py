"""Passing news on to however many follow it, without waiting for any of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
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

    def follow(self, subject: str) -> AsyncGenerator[T, None]:
        """The news from this moment on, also before the first of it is awaited."""
        queue: asyncio.Queue[T] = asyncio.Queue(self._room)
        self._queues.setdefault(subject, set()).add(queue)
        return self._drain(subject, queue)

    async def _drain(self, subject: str, queue: asyncio.Queue[T]) -> AsyncGenerator[T, None]:
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues[subject].discard(queue)

"""Publish/subscribe within the process; publishing never waits for a subscriber."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PubSub(Generic[T]):
    """Subscriptions by subject. A slow subscriber misses items; others are not affected.

    Args:
        max_queued: Maximum number of items queued for one subscriber.
    """

    def __init__(self, max_queued: int) -> None:
        self._max_queued = max_queued
        self._queues: dict[str, set[asyncio.Queue[T]]] = {}

    def publish(self, subject: str, item: T) -> None:
        for queue in self._queues.get(subject, ()):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(item)

    def subscribe(self, subject: str) -> Subscription[T]:
        """Subscribe to items published from now on."""
        queue: asyncio.Queue[T] = asyncio.Queue(self._max_queued)
        queues = self._queues.setdefault(subject, set())
        queues.add(queue)
        return Subscription(queue, queues)


class Subscription(Generic[T]):
    """One subscription, to be iterated and closed. Not a generator: an unstarted one would not run its clean-up."""

    def __init__(self, queue: asyncio.Queue[T], queues: set[asyncio.Queue[T]]) -> None:
        self._queue = queue
        self._queues = queues

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        return await self._queue.get()

    def skip_known(self, is_known: Callable[[T], bool]) -> None:
        """Drop queued items up to the last one that the subscriber knows already."""
        items = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        first_new = next((index for index in range(len(items), 0, -1) if is_known(items[index - 1])), 0)
        for item in items[first_new:]:
            self._queue.put_nowait(item)

    async def aclose(self) -> None:
        """Unsubscribe."""
        self._queues.discard(self._queue)

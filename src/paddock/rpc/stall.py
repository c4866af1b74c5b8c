"""Notices a reader that takes nothing of what waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class StallWatch:
    """Looks now and then, and only while something waits: a reader that keeps up costs nothing.

    Args:
        after: How many seconds without any progress are a stall.
        backlog: How many bytes wait right now.
        stalled: Called once per silence.
    """

    def __init__(self, after: float, backlog: Callable[[], int], stalled: Callable[[], None]) -> None:
        self._after = after
        self._backlog = backlog
        self._stalled = stalled
        self._queued = 0  # bytes, ever
        self._taken = 0  # of these, when we last looked and something had moved
        self._moved_at = 0.0
        self._told = False
        self._timer: asyncio.TimerHandle | None = None

    def queued(self, size: int) -> None:
        """So much was queued; some of it may have been taken at once."""
        self._queued += size
        if self._timer is None and self._backlog():
            self._taken = -1
            self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        waiting = self._backlog()
        if not waiting:
            return
        loop = asyncio.get_running_loop()
        taken = self._queued - waiting
        if taken != self._taken:
            self._taken, self._moved_at, self._told = taken, loop.time(), False
        elif not self._told and loop.time() - self._moved_at >= self._after:
            self._told = True
            self._stalled()
            if not self._backlog():
                return
        self._timer = loop.call_later(self._after / 4, self._look)

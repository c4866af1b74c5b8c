"""Throttles process starts, and spreads the restarts of crashed plugins."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

MAX_CONCURRENT_STARTS = 2
MAX_PERMIT_S = 1.0
SPACING_FACTOR = 3.0  # restarts of crashed plugins are this many start durations apart
MAX_SPACING_S = 0.15
_SMOOTHING_STARTS = 8  # the mean start duration covers about this many starts


class StartThrottle:
    """Lets two starts through at a time, and spreads the restarts of crashed plugins.

    Starting interpreters is expensive: fifty plugins that crash together would keep every core busy, again and again. A
    permit lasts until the plugin answered its handshake, but never long: a plugin that hangs, in its handshake or
    before it has a process at all, blocks no other.
    """

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_STARTS)
        self._mean_start_s = 0.0  # a moving average
        self._reservations: list[float] = []  # restart times of crashed plugins, in order

    def reserve_restart(self, now: float, earliest: float) -> float:
        """Reserve the earliest restart time that keeps its distance from all others.

        A reservation that is not used leaves a gap and blocks no other.
        """
        spacing_s = min(SPACING_FACTOR * self._mean_start_s, MAX_SPACING_S)
        self._reservations = [reserved for reserved in self._reservations if reserved > now - spacing_s]
        restart_at = earliest
        for reserved in self._reservations:
            if reserved - spacing_s < restart_at < reserved + spacing_s:
                restart_at = reserved + spacing_s
        insort(self._reservations, restart_at)
        return restart_at

    @asynccontextmanager
    async def acquire_permit(self) -> AsyncGenerator[StartPermit, None]:
        """Acquire a permit. It is released when the block ends, or earlier through `StartPermit.release`."""
        permit = StartPermit(self._semaphore, self._record_duration)
        await permit.reacquire()
        try:
            yield permit
        finally:
            permit.release()

    def _record_duration(self, duration_s: float) -> None:
        self._mean_start_s += (duration_s - self._mean_start_s) / _SMOOTHING_STARTS


class StartPermit:
    """The right to be starting; `record_duration` gets how long it was held."""

    def __init__(self, semaphore: asyncio.Semaphore, record_duration: Callable[[float], None]) -> None:
        self._semaphore = semaphore
        self._record_duration = record_duration
        self._since: float | None = None  # while it is held
        self._timer: asyncio.TimerHandle | None = None

    async def reacquire(self) -> None:
        """Wait for the permit if it is not held: it was never acquired, or expired before its owner could use it."""
        self._cancel_timer()
        if self._since is None:
            await self._semaphore.acquire()
            self._since = asyncio.get_running_loop().time()

    def limit_duration(self) -> None:
        """Let the permit expire a moment from now, because what follows may hang."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(MAX_PERMIT_S, self.release)

    def release(self) -> None:
        """Release the permit. Harmless the second time."""
        self._cancel_timer()
        if self._since is not None:
            self._record_duration(asyncio.get_running_loop().time() - self._since)
            self._since = None
            self._semaphore.release()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

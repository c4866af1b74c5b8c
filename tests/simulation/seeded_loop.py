"""An event loop on which nothing is left to chance but what a seed decides: no threads, no sockets, no real time.

Time stands still while something is ready and leaps to the next timer when nothing is. Callbacks run in the order in
which they were asked for, as asyncio promises; which of the tasks that are ready has the next step, which it does not
promise, is drawn. What others do in threads is done between two callbacks, after a while that is drawn.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MOST_STEPS = 1_000_000


class Stuck(Exception):
    """Everybody waits for somebody, or nobody comes to an end."""


class SeededLoop(asyncio.BaseEventLoop):
    """See above.

    Args:
        chances: Decides.
        start: What time it is.
    """

    _ready: deque[asyncio.Handle]  # asyncio's own names, which its type stubs keep quiet about
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, chances: Random, start: float = 0.0) -> None:
        super().__init__()
        self.chances = chances
        self.steps = 0
        self.stop_at: int | None = None  # the step after which it stops by itself
        self._now = start

    def time(self) -> float:
        return self._now

    def a_while(self, longest: float = 0.02) -> float:
        """How long something takes: mostly no time at all, or next to none."""
        return self.chances.choice((0.0, 0.001, self.chances.uniform(0.0, longest)))

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        del executor
        answer: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if answer.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self.call_later(self.a_while(), work)
        return answer

    def _run_once(self) -> None:
        self._wake_due()
        if not self._ready:
            if not self._scheduled:
                raise Stuck("nothing will ever happen again")
            self._now = max(self._now, self._scheduled[0].when())
            self._wake_due()
        handle = self._next()
        self.steps += 1
        if not handle.cancelled():
            handle._run()
        if self.steps == self.stop_at:
            self.stop()
        if self.steps >= MOST_STEPS:
            raise Stuck(f"it is not over after {MOST_STEPS:,} steps")

    def _wake_due(self) -> None:
        while self._scheduled and (self._scheduled[0].cancelled() or self._scheduled[0].when() <= self._now):
            handle = heapq.heappop(self._scheduled)
            if not handle.cancelled():
                self._ready.append(handle)

    def _next(self) -> asyncio.Handle:
        if _is_step(self._ready[0]):
            steps = [place for place, handle in enumerate(self._ready) if _is_step(handle)]
            place = self.chances.choice(steps)
            self._ready[0], self._ready[place] = self._ready[place], self._ready[0]
        return self._ready.popleft()

    def _write_to_self(self) -> None:
        """There is no other thread that would have to wake this one."""


def _is_step(handle: asyncio.Handle) -> bool:
    callback = cast("Any", handle)._callback
    return isinstance(getattr(callback, "__self__", None), asyncio.Task) or type(callback).__name__ == (
        "TaskStepMethWrapper"
    )


class SeededClock:
    """The loop's time, and a calendar that may be set to another day."""

    def __init__(self, loop: SeededLoop, moved: float = 0.0) -> None:
        self._loop = loop
        self.moved = moved  # seconds by which the calendar is ahead

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._loop.time() + self.moved)

    def monotonic(self) -> float:
        return self._loop.time()


class SeededRandom:
    """Where ids and salts come from."""

    def __init__(self, chances: Random) -> None:
        self._chances = chances

    def bytes(self, count: int) -> bytes:
        return self._chances.randbytes(count)

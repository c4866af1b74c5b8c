"""How long an event loop is held up, seen by a callback that is due every millisecond."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

TICK = 0.001


class Ticks:
    """How late each callback came on the clock, to which all else on the machine adds, and how much CPU time our own
    thread had spent since the last."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.spent: list[float] = []

    @contextmanager
    def counted(self) -> Generator[None, None, None]:
        """Look at the running loop as long as the block runs; may be done again."""
        loop = asyncio.get_running_loop()
        due, spent_before = loop.time() + TICK, time.thread_time()

        def tick() -> None:
            nonlocal due, spent_before, upcoming
            now, spent = loop.time(), time.thread_time()
            self.late.append(now - due)
            self.spent.append(spent - spent_before)
            due, spent_before = now + TICK, spent
            upcoming = loop.call_at(due, tick)

        upcoming = loop.call_at(due, tick)
        try:
            yield
        finally:
            upcoming.cancel()

    def goals(self, whose: str) -> list[str]:
        """What the promise says of them."""
        lines: list[str] = []
        for what, measured in (("on the clock", self.late), ("of our own CPU time", self.spent)):
            late, worst = (share * 1000 for share in (sorted(measured)[int(len(measured) * 0.999)], max(measured)))
            passed = "PASS" if late < 50 else "FAIL"
            lines.append(
                f"{passed}  loop of {whose} held up, p99.9, {what}: {late:.1f} ms, longest {worst:.1f} ms "
                "(goal: below 50 ms)"
            )
        return lines

"""Those of this host who wait for the ends of calls that are in progress. Nothing is kept of calls that nobody waits
for: another daemon may end them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from paddock.core.ids import CallId
from paddock.gate.course import Course


@dataclass(slots=True, eq=False)
class Wait:
    """The end of one call."""

    course: Course | None = None  # of a call that was made here
    error: BaseException | None = None
    waiters: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def a_while(self, seconds: float) -> None:
        """Until it has come here, or that long: it may come elsewhere."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()


class Waits:
    """Who waits, by call."""

    def __init__(self) -> None:
        self._waits: dict[CallId, Wait] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def made_here(self, course: Course) -> None:
        """A call of this host is in progress; whoever made it waits from now on."""
        self._waits.setdefault(course.call, Wait()).course = course

    @contextmanager
    def waiting(self, call: CallId) -> Generator[Wait, None, None]:
        """Wait for the end of a call while the block runs."""
        wait = self._waits.setdefault(call, Wait())
        wait.waiters += 1
        try:
            yield wait
        finally:
            wait.waiters -= 1
            if not wait.waiters and self._waits.get(call) is wait:
                del self._waits[call]

    def course(self, call: CallId) -> Course | None:
        """A call as it was made here, where somebody still waits for it."""
        wait = self._waits.get(call)
        return None if wait is None else wait.course

    def end(self, call: CallId, error: BaseException | None = None) -> None:
        """It is over: with this error, or with what its record says."""
        wait = self._waits.pop(call, None)
        if wait is not None:
            wait.error = error
            wait.over.set()

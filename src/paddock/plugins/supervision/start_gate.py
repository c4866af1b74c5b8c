"""How many plugins may be starting at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

AT_ONCE = 2
LONGEST_TURN = 1.0
REST = 2.0  # after one that crashed was started again, so many times as long as that took belong to everybody else
LONGEST_REST = 0.25


class StartGate:
    """Lets two starts through at a time, and of those that crashed one, with a rest after it.

    Starting interpreters is what costs a machine its quickness: fifty plugins that crash together would keep every
    core busy, again and again. A turn lasts until the plugin answered its handshake, but never long: one that hangs,
    in its handshake or before it has a process at all, holds up nobody.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._crashed = asyncio.Semaphore(1)

    @asynccontextmanager
    async def turn(self, *, crashed: bool = False) -> AsyncGenerator[Turn, None]:
        """A turn that is given back when the block ends, or earlier through `Turn.over`.

        Args:
            crashed: Whether it is for one that was started before and fell.
        """
        turn = Turn(self._turns, self._crashed if crashed else None)
        await turn.again()
        try:
            yield turn
        finally:
            turn.over()


class Turn:
    """The right to be starting.

    Args:
        turns: Those of all.
        queue: Where one that crashed waits for the others that did.
    """

    def __init__(self, turns: asyncio.Semaphore, queue: asyncio.Semaphore | None) -> None:
        self._turns = turns
        self._queue = queue
        self._since: float | None = None  # while it is held
        self._timer: asyncio.TimerHandle | None = None

    async def again(self) -> None:
        """Wait for the turn, where it is not held: it was never given, or was over before its owner got to use it."""
        self._no_timer()
        if self._since is not None:
            return
        if self._queue is not None:
            await self._queue.acquire()
        try:
            await self._turns.acquire()
        except BaseException:
            if self._queue is not None:
                self._queue.release()
            raise
        self._since = asyncio.get_running_loop().time()

    def began(self) -> None:
        """Something is under way that may hang; from now on the turn lasts a moment longer at most."""
        self._no_timer()
        self._timer = asyncio.get_running_loop().call_later(LONGEST_TURN, self.over)

    def over(self) -> None:
        """Let the next one start. Harmless the second time."""
        self._no_timer()
        if self._since is None:
            return
        loop = asyncio.get_running_loop()
        took, self._since = loop.time() - self._since, None
        self._turns.release()
        if self._queue is not None:
            loop.call_later(min(REST * took, LONGEST_REST), self._queue.release)

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

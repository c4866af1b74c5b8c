"""How many plugins may be starting at once, and when those that crashed may start again."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

AT_ONCE = 2
LONGEST_TURN = 1.0
APART = 3.0  # times as long as a start takes: so far apart are those of plugins that crashed
LONGEST_APART = 0.15
_SMOOTH = 8  # over about how many starts it is told how long one takes


class StartGate:
    """Lets two starts through at a time, and spreads those of plugins that crashed.

    Starting interpreters is what costs a machine its quickness: fifty plugins that crash together would keep every
    core busy, again and again. A turn lasts until the plugin answered its handshake, but never long: one that hangs,
    in its handshake or before it has a process at all, holds up nobody.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._took = 0.0  # seconds, the last ones counting most
        self._booked: list[float] = []  # when plugins that crashed start again, the next one first

    def book(self, now: float, earliest: float) -> float:
        """When one that crashed may start again: at the earliest time at which no other one does.

        Whoever then does not come leaves a gap, and holds up nobody.
        """
        apart = min(APART * self._took, LONGEST_APART)
        self._booked = [at for at in self._booked if at > now - apart]
        found = earliest
        for at in self._booked:
            if at - apart < found < at + apart:
                found = at + apart
        insort(self._booked, found)
        return found

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Turn, None]:
        """A turn that is given back when the block ends, or earlier through `Turn.over`."""
        turn = Turn(self._turns, self._note)
        await turn.again()
        try:
            yield turn
        finally:
            turn.over()

    def _note(self, took: float) -> None:
        self._took += (took - self._took) / _SMOOTH


class Turn:
    """The right to be starting; `note` is told how long it was held."""

    def __init__(self, turns: asyncio.Semaphore, note: Callable[[float], None]) -> None:
        self._turns = turns
        self._note = note
        self._since: float | None = None  # while it is held
        self._timer: asyncio.TimerHandle | None = None

    async def again(self) -> None:
        """Wait for the turn, where it is not held: it was never given, or was over before its owner got to use it."""
        self._no_timer()
        if self._since is None:
            await self._turns.acquire()
            self._since = asyncio.get_running_loop().time()

    def began(self) -> None:
        """Something is under way that may hang; from now on the turn lasts a moment longer at most."""
        self._no_timer()
        self._timer = asyncio.get_running_loop().call_later(LONGEST_TURN, self.over)

    def over(self) -> None:
        """Let the next one start. Harmless the second time."""
        self._no_timer()
        if self._since is not None:
            self._note(asyncio.get_running_loop().time() - self._since)
            self._since = None
            self._turns.release()

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

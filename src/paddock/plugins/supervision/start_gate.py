"""How many plugins may be starting at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

AT_ONCE = 2
LONGEST_TURN = 1.0


class StartGate:
    """Lets two starts through at a time.

    Starting interpreters is what costs a machine its quickness: fifty plugins that crash together would keep every
    core busy. A turn lasts until the plugin answered its handshake, but never long: one that hangs holds up nobody.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Turn, None]:
        """A turn that is given back when the block ends, or earlier through `Turn.over`."""
        await self._turns.acquire()
        turn = Turn(self._turns)
        try:
            yield turn
        finally:
            turn.over()


class Turn:
    """The right to be starting."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns
        self._timer: asyncio.TimerHandle | None = None

    def began(self) -> None:
        """The process exists; from now on the turn lasts a moment longer at most."""
        self._timer = asyncio.get_running_loop().call_later(LONGEST_TURN, self.over)

    def over(self) -> None:
        """Let the next one start. Harmless the second time."""
        if self._timer is not None:
            self._timer.cancel()
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()

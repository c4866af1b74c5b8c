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
    core busy. A turn lasts until the plugin answered its handshake, but never long: one that hangs, in its handshake
    or before it has a process at all, holds up nobody.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Turn, None]:
        """A turn that is given back when the block ends, or earlier through `Turn.over`."""
        turn = Turn(self._turns)
        await turn.again()
        try:
            yield turn
        finally:
            turn.over()


class Turn:
    """The right to be starting."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    async def again(self) -> None:
        """Wait for the turn, where it is not held: it was never given, or was over before its owner got to use it."""
        self._no_timer()
        if not self._held:
            await self._turns.acquire()
            self._held = True

    def began(self) -> None:
        """Something is under way that may hang; from now on the turn lasts a moment longer at most."""
        self._no_timer()
        self._timer = asyncio.get_running_loop().call_later(LONGEST_TURN, self.over)

    def over(self) -> None:
        """Let the next one start. Harmless the second time."""
        self._no_timer()
        if self._held:
            self._held = False
            self._turns.release()

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""How fast something may go on: so many at once, and so many a second after that. Pure."""

from __future__ import annotations


class Pace:
    """A bucket of turns that fills at a steady rate."""

    def __init__(self, *, a_second: float, at_once: int) -> None:
        self._rate = a_second
        self._most = float(at_once)
        self._turns = float(at_once)
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Take a turn. The seconds to wait before acting on it: 0 where there was one left."""
        if self._at is not None:
            self._turns = min(self._most, self._turns + (now - self._at) * self._rate)
        self._at = now
        self._turns -= 1
        return max(0.0, -self._turns / self._rate)

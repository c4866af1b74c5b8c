"""How often a server is looked at that keeps saying that its list changed. Pure."""

from __future__ import annotations

BURST = 5  # looks without a pause
SHORTEST = 1.0  # seconds between two looks after that
LONGEST = 30.0


class Pace:
    """When the next look at what one server lists may be. As long as it cannot wait, each pause is twice the last."""

    def __init__(self) -> None:
        self._earliest = 0.0
        self._pause = SHORTEST

    def wait(self, now: float) -> float:
        """Count one look; how many seconds from now it may be."""
        earliest = max(self._earliest, now - BURST * SHORTEST)
        if earliest <= now:
            self._pause = SHORTEST
        self._earliest = earliest + self._pause
        if earliest <= now:
            return 0.0
        self._pause = min(2 * self._pause, LONGEST)
        return earliest - now

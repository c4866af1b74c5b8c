"""How much of something a plugin may send in a second, counted without a timer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RateWindow:
    """Counts within windows of one second. What is over the limit is dropped, and told once a window."""

    limit: int
    _started: float = float("-inf")
    _count: int = 0

    def take(self, now: float) -> bool:
        """Whether one more is within the limit."""
        if now - self._started >= 1.0:
            self._started, self._count = now, 0
        self._count += 1
        return self._count <= self.limit

    @property
    def just_exceeded(self) -> bool:
        """Whether the one just refused was the first of its window: the moment to tell somebody."""
        return self._count == self.limit + 1

    @property
    def count(self) -> int:
        """How many came in this window, dropped ones included."""
        return self._count

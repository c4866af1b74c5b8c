"""Rate limits: one-second windows that drop a flood, and token buckets that refill over time. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

_MINUTE_S = 60.0


class TokenBucketState(NamedTuple):
    """The tokens of a bucket with a capacity of one minute, and when they were counted."""

    left: float
    at: float

    def available(self, a_minute: float, now: float) -> float:
        """The tokens it has now: never more than a minute's worth."""
        return min(a_minute, self.left + (now - self.at) * a_minute / _MINUTE_S)


def seconds_until_available(cost: float, left: float, a_minute: float) -> float:
    """Seconds until a bucket with these tokens holds the cost, rounded up to a millisecond."""
    return max(0.0, math.ceil((cost - left) * _MINUTE_S / a_minute * 1000) / 1000)


class RateWindow(Struct):
    """Counts within windows of one second. Excess is dropped, and reported once a window."""

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
        """Whether the one just refused was the first of its window: the moment to report it."""
        return self._count == self.limit + 1

    @property
    def count(self) -> int:
        """How many came in this window, dropped ones included."""
        return self._count

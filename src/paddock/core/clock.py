"""Time and chance, behind interfaces so that a test or a simulation can supply its own."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is."""

    def now(self) -> datetime:
        """The wall time, in UTC. May jump; good for records."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow. Good for measuring and for deadlines."""
        ...


class Random(Protocol):
    """Where unguessable bytes come from."""

    def bytes(self, count: int) -> bytes:
        """That many random bytes."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SystemRandom:
    """The operating system's source of randomness."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

"""Clock and randomness, behind interfaces so that a test or a simulation can supply its own."""

from __future__ import annotations

import os
import time
from collections import deque
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Gives the time."""

    def now(self) -> datetime:
        """The wall time, in UTC. May jump; good for records."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back. Good for measuring and for deadlines."""
        ...


class Random(Protocol):
    """A source of unguessable bytes."""

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
    """The operating system's source of randomness.

    Short pieces are fetched many at a time: each system call releases the GIL, and a busy host may then wait longer to
    get it back than for all else that a call needs.
    """

    def bytes(self, count: int) -> bytes:
        if count > _PIECE_BYTES:
            return os.urandom(count)
        while True:
            try:
                return _pieces.pop()[:count]  # atomic: no two threads get the same piece
            except IndexError:
                fetched = os.urandom(_PIECE_BYTES * _PIECES_PER_READ)
                _pieces.extend(fetched[start : start + _PIECE_BYTES] for start in range(0, len(fetched), _PIECE_BYTES))


_PIECE_BYTES = 16
_PIECES_PER_READ = 256
_pieces: deque[bytes] = deque()
os.register_at_fork(after_in_child=_pieces.clear)  # a forked process must not draw the same bytes


def format_utc(moment: datetime) -> str:
    """A time in UTC as `isoformat` writes it, in a third of the time."""
    return (
        f"{_format_second(int(moment.timestamp()))}.{moment.microsecond:06}+00:00"
        if moment.microsecond
        else moment.isoformat()
    )


@lru_cache(maxsize=8)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")

"""Moments as text, quickly: every call and every entry of the ledger has some."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def time_text(at: datetime) -> str:
    """A moment in UTC as `isoformat` writes it, in a third of the time."""
    return f"{_second(int(at.timestamp()))}.{at.microsecond:06}+00:00" if at.microsecond else at.isoformat()


@lru_cache(maxsize=8)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")

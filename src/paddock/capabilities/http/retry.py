"""When a request is sent once more, and how long to wait before. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from paddock.capabilities.http.headers import IDEMPOTENCY, value_of
from paddock.capabilities.http.hop import Hop
from paddock.capabilities.http.request import MOST_BACKOFF

AGAIN = frozenset({429, 502, 503, 504})
"""Answers that say: not now."""


def may_repeat(hop: Hop) -> bool:
    """Whether sending it twice does what sending it once does: it changes nothing, or its plugin gave it a key.

    The key that the host adds says nothing of whether the other side knows keys. A plugin that sets one says so.
    """
    return hop.safe or value_of(hop.headers, IDEMPOTENCY) is not None


def wait_before(attempt: int, backoff: float, chance: float, asked: float | None = None) -> float:
    """Seconds before an attempt, counted from 1 for the first repetition.

    Twice as long each time, less up to a half by chance, so that many who failed together do not return together; and
    never less than the other side asked for.
    """
    longest = min(MOST_BACKOFF, backoff * 2 ** (attempt - 1))
    return max(longest * (1 - chance / 2), asked or 0.0)


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that an answer asks to wait for; None where it asks for nothing that can be read."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, IndexError, OverflowError):
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())

"""When a request is sent once more, and how long to wait before. Pure."""

from __future__ import annotations

from paddock.capabilities.http.headers import IDEMPOTENCY_HEADER, header_value
from paddock.capabilities.http.hop import FetchHop
from paddock.capabilities.http.request import MAX_BACKOFF_S

RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
"""Answers that say: not now."""


def is_retryable(hop: FetchHop) -> bool:
    """Whether sending it twice does what sending it once does: it changes nothing, or its plugin gave it a key.

    The key that the host adds says nothing of whether the other side knows keys. A plugin that sets one says so.
    """
    return hop.safe or header_value(hop.headers, IDEMPOTENCY_HEADER) is not None


def retry_delay(attempt: int, backoff: float, chance: float, asked: float | None = None) -> float:
    """Seconds before an attempt, counted from 1 for the first repetition.

    Twice as long each time, less up to a half by chance, so that many who failed together do not return together; and
    never less than the other side asked for.
    """
    longest = min(MAX_BACKOFF_S, backoff * 2 ** (attempt - 1))
    return max(longest * (1 - chance / 2), asked or 0.0)

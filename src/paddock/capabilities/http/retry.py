"""When to send a request again, and how long to wait before. Pure."""

from __future__ import annotations

from paddock.capabilities.http.headers import IDEMPOTENCY_HEADER, header_value
from paddock.capabilities.http.hop import FetchHop
from paddock.capabilities.http.request import MAX_BACKOFF_S

RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses that mean "not now"."""


def is_retryable(hop: FetchHop) -> bool:
    """Whether repeating the request is safe: it changes nothing, or the plugin set an idempotency key.

    The key that the host adds does not show that the server honours keys. A plugin that sets one claims so.
    """
    return hop.safe or header_value(hop.headers, IDEMPOTENCY_HEADER) is not None


def retry_delay(attempt: int, backoff: float, chance: float, retry_after: float | None = None) -> float:
    """Return the seconds before an attempt, counted from 1 for the first retry.

    Exponential backoff, reduced by up to a half at random, so that clients that failed together do not return together;
    never less than the server's `Retry-After`.
    """
    delay = min(MAX_BACKOFF_S, backoff * 2 ** (attempt - 1))
    return max(delay * (1 - chance / 2), retry_after or 0.0)

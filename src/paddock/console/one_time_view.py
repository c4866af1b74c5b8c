"""One-time display of secrets, such as new API keys and sign-in links.

Rendering the secret in the response to the POST would create another one on every reload. So the POST redirects, and
the secret waits in memory for a minute: for its creator only, and for one view.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

TTL_S: Final = 60.0
_MAX_ITEMS: Final = 1_000


class OneTimeView(Generic[T]):
    """Holds values that can each be viewed once.

    Args:
        now: A monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._items: dict[str, tuple[float, str, T]] = {}

    def put(self, viewer: str, value: T) -> str:
        """Store a value for a viewer; returns the key to take it with."""
        self._evict()
        key = secrets.token_urlsafe(16)
        self._items[key] = (self._now() + TTL_S, viewer, value)
        return key

    def take(self, viewer: str, key: str) -> T | None:
        """Return a stored value to its viewer, once; else None."""
        self._evict()
        item = self._items.get(key)
        if item is None or item[1] != viewer:
            return None
        del self._items[key]
        return item[2]

    def _evict(self) -> None:
        now = self._now()
        for key in [key for key, (expires_at, _, _) in self._items.items() if expires_at <= now]:
            del self._items[key]
        while len(self._items) >= _MAX_ITEMS:
            del self._items[next(iter(self._items))]

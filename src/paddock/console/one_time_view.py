"""What is shown once, on its way from the request that made it to the page that shows it.

A page that answered the request itself would make another one each time it is loaded again. So it goes on to an
address, and what is to be seen there waits in memory for a minute: for whoever made it, and for one look.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

TTL_S: Final = 60.0  # seconds
_MAX_ITEMS: Final = 1_000


class OneTimeView(Generic[T]):
    """Keeps things for one look each.

    Args:
        now: A clock that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._items: dict[str, tuple[float, str, T]] = {}

    def put(self, who: str, what: T) -> str:
        """Keep something for somebody; the name to ask for it with."""
        self._evict()
        name = secrets.token_urlsafe(16)
        self._items[name] = (self._now() + TTL_S, who, what)
        return name

    def take(self, who: str, name: str) -> T | None:
        """What was kept under this name, where it is theirs and nobody looked yet."""
        self._evict()
        found = self._items.get(name)
        if found is None or found[1] != who:
            return None
        del self._items[name]
        return found[2]

    def _evict(self) -> None:
        now = self._now()
        for name in [name for name, (until, _, _) in self._items.items() if until <= now]:
            del self._items[name]
        while len(self._items) >= _MAX_ITEMS:
            del self._items[next(iter(self._items))]

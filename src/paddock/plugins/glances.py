"""Quick looks at places that may be on a dead disk, where a look never returns.

Each is taken by a thread of its own, which is left behind where it hangs. A place that somebody still looks at is not
looked at twice, and whoever asks about one that hung before does not wait for it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_AT_ONCE = 32


@dataclass(eq=False, slots=True)
class _Glance(Generic[T]):
    since: float
    over: threading.Event = field(default_factory=threading.Event)
    found: T | None = None


class Glances(Generic[T]):
    """Takes looks for all threads of this process.

    Args:
        look: Tells what stands at a path; must not raise.
        most: How many threads may hang.
    """

    def __init__(self, look: Callable[[str], T | None], most: int = MOST_AT_ONCE) -> None:
        self._look = look
        self._most = most
        self._turn = threading.Lock()
        self._under_way: dict[str, _Glance[T]] = {}

    def at(self, path: str, patience: float) -> T | None:
        """What stands at a path; None where nothing does, or where that is not known in so many seconds."""
        with self._turn:
            glance = self._under_way.get(path)
            if glance is None:
                if len(self._under_way) >= self._most:
                    return None
                glance = self._begin(path)
        glance.over.wait(max(0.0, glance.since + patience - time.monotonic()))
        return glance.found

    def _begin(self, path: str) -> _Glance[T]:
        glance = self._under_way[path] = _Glance[T](time.monotonic())

        def work() -> None:
            glance.found = self._look(path)
            with self._turn:
                del self._under_way[path]
            glance.over.set()

        threading.Thread(target=work, name="paddock-glance", daemon=True).start()
        return glance

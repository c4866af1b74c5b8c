"""Which refusals are worth a record of their own. Pure.

A plugin that tries one thing a thousand times a second is one fact with a number, and one that tries a thousand things
must not fill the audit log. The first time is recorded at once; repeats are counted, and told together when the minute
is over or the plugin ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

WINDOW_SECONDS = 60.0
MOST_DIFFERENT = 100


@dataclass(frozen=True, slots=True)
class Denial:
    """One thing that a plugin was kept from."""

    host: str
    address: str | None
    port: int | None
    reason: str


class Denials:
    """Refusals of one plugin, as they come; gives back what is to be recorded, with how many times."""

    def __init__(self) -> None:
        self._since = 0.0
        self._uncounted: dict[Denial, int] = {}

    def note(self, denial: Denial, now: float) -> Iterator[tuple[Denial, int]]:
        """Take one refusal, at a time that only ever grows."""
        if now - self._since >= WINDOW_SECONDS:
            yield from self.rest()
            self._since = now
        if denial not in self._uncounted and len(self._uncounted) >= MOST_DIFFERENT:
            # What was tried is not told any more, only that it was.
            denial = replace(denial, host="", address=None, port=None)
        if denial in self._uncounted:
            self._uncounted[denial] += 1
        else:
            self._uncounted[denial] = 0
            yield denial, 1

    def rest(self) -> Iterator[tuple[Denial, int]]:
        """Repeats that are not recorded yet; forgets everything."""
        counted, self._uncounted = self._uncounted, {}
        yield from ((denial, times) for denial, times in counted.items() if times)

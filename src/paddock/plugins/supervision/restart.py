"""When a plugin that ended is started again, and when it is given up: a pure account of its failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

WINDOW = 600.0  # seconds: this many failures within it, and this long in good health to be forgiven
LIMIT = 5
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Again:
    """Start it again after this pause, in seconds."""

    pause: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It failed too often; a person has to enable it again."""

    failures: int


Verdict: TypeAlias = Again | GiveUp


@dataclass(frozen=True, slots=True)
class Account:
    """The failures of one plugin since it was last in good health for ten minutes.

    Times are monotonic seconds, so a clock that is set does not forgive or condemn anyone.
    """

    limit: int = LIMIT
    failures: tuple[float, ...] = ()

    def failed(self, now: float, *, ran_since: float | None) -> tuple[Account, Verdict]:
        """Book one failure.

        Args:
            now: When it ended.
            ran_since: When it began to answer calls; None when it never did.
        """
        healthy = ran_since is not None and now - ran_since >= WINDOW
        failures = ((*self.failures, now) if not healthy else (now,))[-2 * LIMIT :]
        booked = replace(self, failures=failures)
        recent = sum(1 for at in failures if now - at < WINDOW)
        if recent >= self.limit:
            return booked, GiveUp(recent)
        return booked, Again(min(2.0 ** (len(failures) - 1), LONGEST_PAUSE))


def with_jitter(pause: float, chance: int) -> float:
    """The pause, up to a fifth longer, so that plugins that fell together do not rise together.

    Args:
        pause: Seconds.
        chance: A random number from 0 to 255.
    """
    return pause * (1 + chance / 255 / 5)

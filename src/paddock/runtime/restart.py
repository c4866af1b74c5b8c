"""When a plugin that ended is started again, and when it is given up: a pure account of its failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

FAILURE_WINDOW_S = 600.0  # seconds: this many failures within it, and this long in good health to be forgiven
MAX_FAILURES = 5
MAX_BACKOFF_S = 60.0


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start it again after this pause, in seconds."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class BudgetExhausted:
    """It failed too often; a person has to enable it again."""

    failures: int


RestartDecision: TypeAlias = RestartAfter | BudgetExhausted


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """The failures of one plugin since it was last in good health for ten minutes.

    Times are monotonic seconds, so a clock that is set does not forgive or condemn anyone.
    """

    limit: int = MAX_FAILURES
    failures: tuple[float, ...] = ()

    def record_failure(self, now: float, *, ran_since: float | None) -> tuple[RestartBudget, RestartDecision]:
        """Book one failure.

        Args:
            now: When it ended.
            ran_since: When it began to answer calls; None when it never did.
        """
        healthy = ran_since is not None and now - ran_since >= FAILURE_WINDOW_S
        failures = ((*self.failures, now) if not healthy else (now,))[-2 * MAX_FAILURES :]
        booked = replace(self, failures=failures)
        recent = sum(1 for at in failures if now - at < FAILURE_WINDOW_S)
        if recent >= self.limit:
            return booked, BudgetExhausted(recent)
        return booked, RestartAfter(min(2.0 ** (len(failures) - 1), MAX_BACKOFF_S))


def with_jitter(pause: float, chance: int) -> float:
    """The pause, up to a fifth longer, so that plugins that fell together do not rise together.

    Args:
        pause: Seconds.
        chance: A random number from 0 to 255.
    """
    return pause * (1 + chance / 255 / 5)

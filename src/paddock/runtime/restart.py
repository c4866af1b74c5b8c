"""The restart policy: when a plugin that crashed is restarted, and when it is given up. Pure."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from paddock.manifest.model import Dialect

FAILURE_WINDOW_S = 600.0  # MAX_FAILURES within it exhaust the budget; this long in good health resets it
MAX_FAILURES = 5
MAX_BACKOFF_S = 60.0
MAX_FAILURES_OF_DIALECT = {Dialect.OSQR: 3}  # OSQR's specification allows fewer restarts


class RestartAfter(Struct, frozen=True):
    """Restart after this delay."""

    delay_s: float


class BudgetExhausted(Struct, frozen=True):
    """It failed too often; a person has to enable it again."""

    failures: int


RestartDecision: TypeAlias = RestartAfter | BudgetExhausted


class RestartBudget(Struct, frozen=True):
    """The failures of one plugin since it was last healthy for ten minutes.

    Times are monotonic seconds, so a change of the wall clock has no influence.
    """

    limit: int = MAX_FAILURES
    failures: tuple[float, ...] = ()

    def record_failure(self, now: float, *, ran_since: float | None) -> tuple[RestartBudget, RestartDecision]:
        """Add one failure and return the new budget with the decision.

        Args:
            now: When the process ended.
            ran_since: When it began to answer calls; None if it never did.
        """
        healthy = ran_since is not None and now - ran_since >= FAILURE_WINDOW_S
        failures = ((*self.failures, now) if not healthy else (now,))[-2 * MAX_FAILURES :]
        budget = replace(self, failures=failures)
        recent = sum(1 for failed_at in failures if now - failed_at < FAILURE_WINDOW_S)
        if recent >= self.limit:
            return budget, BudgetExhausted(recent)
        return budget, RestartAfter(min(2.0 ** (len(failures) - 1), MAX_BACKOFF_S))


def new_budget(dialect: Dialect) -> RestartBudget:
    """Return the budget of a plugin of this dialect that has not failed yet."""
    return RestartBudget(MAX_FAILURES_OF_DIALECT.get(dialect, MAX_FAILURES))


def with_jitter(delay_s: float, random_byte: int) -> float:
    """Return the delay, up to a fifth longer, so that plugins that crashed together do not restart together.

    Args:
        delay_s: The delay in seconds.
        random_byte: A random number from 0 to 255.
    """
    return delay_s * (1 + random_byte / 255 / 5)

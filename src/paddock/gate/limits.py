"""How often: so many calls a minute for a tenant, for whoever calls, and of a plugin. The clock is given.

Each is a bucket that holds a minute's worth and fills as time passes, so a burst is fine and a flood is not. Whoever
finds theirs empty is told how long to wait; others do not notice. What they may use in a day is counted beside it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from paddock.core.errors import Busy
from paddock.core.flow import Bucket, wait_for
from paddock.gate.quotas import Quotas
from paddock.gate.rates import NO_LIMIT, Rates, Whose

_MOST_BUCKETS = 50_000


class Limits:
    """The buckets of this host.

    Args:
        a_minute: How often.
        quotas: How much in a day.
        monotonic: The time, in seconds.
    """

    def __init__(self, a_minute: Rates, quotas: Quotas, monotonic: Callable[[], float]) -> None:
        self._a_minute = a_minute
        self._unlimited = a_minute == NO_LIMIT
        self._quotas = quotas
        self._monotonic = monotonic
        self._buckets: OrderedDict[Whose, Bucket] = OrderedDict()

    def take(self, tenant: str, principal: str, plugin: str) -> None:
        """Count one call.

        Raises:
            Busy: one of them has had as many as it may; `retry_after` of its details says for how long to wait.
        """
        taken = () if self._unlimited else self._had(tenant, principal, plugin)
        self._quotas.take(tenant, principal, plugin)
        for whose, bucket in taken:  # only once all of them had one: a refused call costs nobody anything
            self._buckets[whose] = bucket
            self._buckets.move_to_end(whose)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)

    def _had(self, tenant: str, principal: str, plugin: str) -> list[tuple[Whose, Bucket]]:
        """The buckets as they are after this call."""
        now = self._monotonic()
        taken: list[tuple[Whose, Bucket]] = []
        for whose, most in self._a_minute.of(tenant, principal, plugin):
            bucket = self._buckets.get(whose)
            left = float(most) if bucket is None else bucket.filled(most, now)
            if left < 1:
                raise _too_many(whose, most, wait_for(1, left, most))
            taken.append((whose, Bucket(left - 1, now)))
        return taken


def _too_many(whose: Whose, a_minute: int, seconds: float) -> Busy:
    return Busy(
        f"{whose.had(a_minute)} in a minute, and that is the limit",
        code="rate_limited",
        hint=f"try again in {seconds:g} s",
        details={"retry_after": seconds, "limit_per_minute": a_minute},
    )

"""How often: so many calls a minute for a tenant, for whoever calls, and of a plugin. The clock is given.

Each is a bucket that holds a minute's worth and fills as time passes, so a burst is fine and a flood is not. Whoever
finds theirs empty is told how long to wait; others do not notice. What they may use in a day is counted beside it.
What somebody may not do, or does wrongly, uses their own share and nobody else's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

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
        self._quotas = quotas
        self._unlimited = a_minute == NO_LIMIT and quotas.unlimited
        self._monotonic = monotonic
        self._buckets: OrderedDict[Whose, Bucket] = OrderedDict()

    def take_own(self, tenant: str, principal: str) -> None:
        """Count one call for whoever makes it, whatever will become of it.

        Raises:
            Busy: they have had as many as they may; `retry_after` of its details says for how long to wait.
        """
        if not self._unlimited:
            self._take(Whose(tenant, "principal", principal))

    def take_shared(self, tenant: str, plugin: str) -> None:
        """Count one call, which the rules do not forbid, for all who share its tenant and its plugin.

        Raises:
            Busy: as above.
        """
        if not self._unlimited:
            self._take(Whose(tenant, "tenant", ""), Whose(tenant, "plugin", plugin))

    def _take(self, *wanted: Whose) -> None:
        taken = self._had(wanted)
        self._quotas.take(*wanted)
        for whose, bucket in taken:  # only once each of them had one: a refused call costs no other anything
            self._buckets[whose] = bucket
            self._buckets.move_to_end(whose)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)

    def _had(self, wanted: Iterable[Whose]) -> list[tuple[Whose, Bucket]]:
        """The buckets as they are after this call."""
        now = self._monotonic()
        taken: list[tuple[Whose, Bucket]] = []
        for whose in wanted:
            most = self._a_minute.of(whose)
            if most is None:
                continue
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
        hint=f"try again in {seconds:g} s; the limit is limits.calls_per_{whose.whose}",
        details={"retry_after": seconds, "limit_per_minute": a_minute},
    )

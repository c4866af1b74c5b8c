"""How often: so many calls a minute for a tenant, for whoever calls, and of a plugin. The clock is given.

Each is a bucket that holds a minute's worth and fills as time passes, so a burst is fine and a flood is not. Whoever
finds theirs empty is told how long to wait; others do not notice. What they may use in a day is counted beside it.
What somebody may not do, or does wrongly, uses their own share and nobody else's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from paddock.core.errors import Busy
from paddock.core.rate import TokenBucketState, seconds_until_available
from paddock.gate.admission.quotas import NO_LIMITS, CallLimits, DailyQuotas, LimitKey

_MAX_BUCKETS = 50_000


class RateLimiter:
    """The buckets of this host.

    Args:
        a_minute: How often.
        quotas: How much in a day.
        monotonic: The time, in seconds.
    """

    def __init__(self, a_minute: CallLimits, quotas: DailyQuotas, monotonic: Callable[[], float]) -> None:
        self._per_minute = a_minute
        self._quotas = quotas
        self._unlimited = a_minute == NO_LIMITS and quotas.unlimited
        self._monotonic = monotonic
        self._buckets: OrderedDict[LimitKey, TokenBucketState] = OrderedDict()

    def take_for_principal(self, tenant: str, principal: str) -> None:
        """Count one call for whoever makes it, whatever will become of it.

        Raises:
            Busy: they have had as many as they may; `retry_after` of its details says for how long to wait.
        """
        if not self._unlimited:
            self._take(LimitKey(tenant, "principal", principal))

    def take_for_tenant_and_plugin(self, tenant: str, plugin: str) -> None:
        """Count one call, which the rules do not forbid, for all who share its tenant and its plugin.

        Raises:
            Busy: as above.
        """
        if not self._unlimited:
            self._take(LimitKey(tenant, "tenant", ""), LimitKey(tenant, "plugin", plugin))

    def _take(self, *wanted: LimitKey) -> None:
        taken = self._take_tokens(wanted)
        self._quotas.take(*wanted)
        for whose, bucket in taken:  # only once each of them had one: a refused call costs no other anything
            self._buckets[whose] = bucket
            self._buckets.move_to_end(whose)
        while len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)

    def _take_tokens(self, wanted: Iterable[LimitKey]) -> list[tuple[LimitKey, TokenBucketState]]:
        """The buckets as they are after this call."""
        now = self._monotonic()
        taken: list[tuple[LimitKey, TokenBucketState]] = []
        for whose in wanted:
            most = self._per_minute.limit_for(whose)
            if most is None:
                continue
            bucket = self._buckets.get(whose)
            left = float(most) if bucket is None else bucket.available(most, now)
            if left < 1:
                raise _rate_limited_error(whose, most, seconds_until_available(1, left, most))
            taken.append((whose, TokenBucketState(left - 1, now)))
        return taken


def _rate_limited_error(whose: LimitKey, a_minute: int, seconds: float) -> Busy:
    return Busy(
        f"{whose.describe_use(a_minute)} in a minute, and that is the limit",
        code="rate_limited",
        hint=f"try again in {seconds:g} s; the limit is limits.calls_per_{whose.scope}",
        details={"retry_after": seconds, "limit_per_minute": a_minute},
    )

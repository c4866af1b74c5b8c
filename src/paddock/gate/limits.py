"""How often: so many calls a minute for a tenant, for whoever calls, and of a plugin. The clock is given.

Each is a bucket that holds a minute's worth and fills as time passes, so a burst is fine and a flood is not. Whoever
finds theirs empty is told how long to wait; others do not notice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from paddock.core.errors import Busy
from paddock.core.flow import Bucket, wait_for

_MOST_BUCKETS = 50_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Calls a minute; None sets no limit."""

    per_tenant: int | None = None
    per_principal: int | None = None
    per_plugin: int | None = None


class Limits:
    """The buckets of this host.

    Args:
        rates: How often.
        monotonic: The time, in seconds.
    """

    def __init__(self, rates: Rates, monotonic: Callable[[], float]) -> None:
        self._rates = rates
        self._monotonic = monotonic
        self._buckets: OrderedDict[tuple[str, ...], Bucket] = OrderedDict()
        self._unlimited = rates == Rates()

    def take(self, tenant: str, principal: str, plugin: str) -> None:
        """Count one call.

        Raises:
            Busy: one of them has had as many as it may; `retry_after` of its details says for how long to wait.
        """
        if self._unlimited:
            return
        rates, now = self._rates, self._monotonic()
        wanted = (
            (("tenant", tenant), rates.per_tenant, "your tenant"),
            (("principal", tenant, principal), rates.per_principal, principal),
            (("plugin", tenant, plugin), rates.per_plugin, plugin),
        )
        taken: list[tuple[tuple[str, ...], float]] = []
        for key, a_minute, whose in wanted:
            if a_minute:
                left = self._left(key, a_minute, now)
                if left < 1:
                    raise _too_many(whose, a_minute, wait_for(1, left, a_minute))
                taken.append((key, left - 1))
        for key, left in taken:  # only once all of them had one: a refused call costs nobody anything
            self._buckets[key] = Bucket(left, now)
            self._buckets.move_to_end(key)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)

    def _left(self, key: tuple[str, ...], a_minute: int, now: float) -> float:
        bucket = self._buckets.get(key)
        return float(a_minute) if bucket is None else bucket.filled(a_minute, now)


def _too_many(whose: str, a_minute: int, seconds: float) -> Busy:
    return Busy(
        f"{whose} has made {a_minute} calls in a minute, and may not make more",
        code="rate_limited",
        hint=f"try again in {seconds:g} s",
        details={"retry_after": seconds, "limit_per_minute": a_minute},
    )

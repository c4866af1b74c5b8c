"""Rate limits: calls per minute for each tenant, principal and plugin, as token buckets.

A bucket holds one minute's worth of calls and refills as time passes, so a burst passes and a flood does not. A caller
whose bucket is empty is told how long to wait; other callers are not affected. Daily quotas are counted together with
the rate limits. Calls that are denied or invalid use up only the share of the principal that makes them.

To add a limit by something else, such as the tool: add its scope and its limit in `call_limits.py`, its setting in
`config/limit_settings.py`, the step from one to the other in `host/wiring/open_host.py`, and here the key that a call
takes from, which `gate/gate.py` passes the call's facts for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from paddock.core.errors import Busy
from paddock.core.rate import TokenBucketState, seconds_until_available
from paddock.gate.admission.call_limits import NO_LIMITS, CallLimits, LimitKey
from paddock.gate.admission.quotas import DailyQuotas

_MAX_BUCKETS = 50_000


class RateLimiter:
    """Holds the token buckets of this host and checks calls against them and the daily quotas.

    Args:
        per_minute: The limits, in calls per minute.
        quotas: The daily quotas.
        monotonic: Returns the monotonic time, in seconds.
    """

    def __init__(self, per_minute: CallLimits, quotas: DailyQuotas, monotonic: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._quotas = quotas
        self._unlimited = per_minute == NO_LIMITS and quotas.unlimited
        self._monotonic = monotonic
        self._buckets: OrderedDict[LimitKey, TokenBucketState] = OrderedDict()

    def take_for_principal(self, tenant: str, principal: str) -> None:
        """Count one call for the principal that makes it, whatever its outcome will be.

        Raises:
            Busy: the principal has reached a limit; `retry_after` in the details says how many seconds to wait.
        """
        if not self._unlimited:
            self._take(LimitKey(tenant, "principal", principal))

    def take_for_tenant_and_plugin(self, tenant: str, plugin: str) -> None:
        """Count one call that policy does not deny, for its tenant and for its plugin.

        Raises:
            Busy: the tenant or the plugin has reached a limit; see `take_for_principal`.
        """
        if not self._unlimited:
            self._take(LimitKey(tenant, "tenant", ""), LimitKey(tenant, "plugin", plugin))

    def _take(self, *keys: LimitKey) -> None:
        taken = self._take_tokens(keys)
        self._quotas.take(*keys)
        for key, bucket in taken:  # only after every limit has passed: a refused call uses up no token
            self._buckets[key] = bucket
            self._buckets.move_to_end(key)
        while len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)

    def _take_tokens(self, keys: Iterable[LimitKey]) -> list[tuple[LimitKey, TokenBucketState]]:
        """Return the limited buckets as they will be after this call, without storing them."""
        now = self._monotonic()
        taken: list[tuple[LimitKey, TokenBucketState]] = []
        for key in keys:
            limit = self._per_minute.limit_for(key)
            if limit is None:
                continue
            bucket = self._buckets.get(key)
            available = float(limit) if bucket is None else bucket.available(limit, now)
            if available < 1:
                raise _rate_limited_error(key, limit, seconds_until_available(1, available, limit))
            taken.append((key, TokenBucketState(available - 1, now)))
        return taken


def _rate_limited_error(key: LimitKey, limit: int, seconds: float) -> Busy:
    return Busy(
        f"{key.describe_use(limit)} in a minute, and that is the limit",
        code="rate_limited",
        hint=f"try again in {seconds:g} s; the limit is limits.calls_per_{key.scope}",
        details={"retry_after": seconds, "limit_per_minute": limit},
    )

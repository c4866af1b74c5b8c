"""How often: buckets that fill as time passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.clock import SystemClock
from paddock.core.errors import Busy
from paddock.gate.admission.call_limits import NO_LIMITS, CallLimits
from paddock.gate.admission.quotas import DailyQuotas
from paddock.gate.admission.rate_limits import RateLimiter


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limits_of(a_minute: CallLimits, time: Time) -> RateLimiter:
    return RateLimiter(a_minute, DailyQuotas(NO_LIMITS, SystemClock()), time)


def take(limits: RateLimiter, tenant: str, principal: str, plugin: str) -> None:
    limits.take_for_principal(tenant, principal)
    limits.take_for_tenant_and_plugin(tenant, plugin)


def test_a_minute_of_calls_is_fine_at_once_and_then_one_comes_back_at_a_time() -> None:
    time = Time()
    limits = limits_of(CallLimits(per_plugin=60), time)
    for _ in range(60):
        take(limits, "a", "ann", "mail")
    with pytest.raises(Busy) as busy:
        take(limits, "a", "ann", "mail")
    assert busy.value.details["retry_after"] == 1.0
    time.now += busy.value.details["retry_after"]
    take(limits, "a", "ann", "mail")
    with pytest.raises(Busy):
        take(limits, "a", "ann", "mail")


def test_one_who_floods_does_not_touch_another_tenant_person_or_plugin() -> None:
    limits = limits_of(CallLimits(per_tenant=1, per_principal=1, per_plugin=1), Time())
    take(limits, "a", "ann", "mail")
    for refused in (("a", "ann", "mail"), ("a", "bob", "post")):
        with pytest.raises(Busy):
            take(limits, *refused)
    take(limits, "b", "ann", "mail")


def test_a_call_that_is_refused_for_one_limit_uses_none_of_the_others() -> None:
    time = Time()
    limits = limits_of(CallLimits(per_tenant=2, per_plugin=1), time)
    take(limits, "a", "ann", "mail")
    for _ in range(5):
        with pytest.raises(Busy):
            take(limits, "a", "ann", "mail")
    take(limits, "a", "ann", "post")


def test_without_rates_nothing_is_counted() -> None:
    limits = limits_of(CallLimits(), Time())
    refused = 0
    for _ in range(10_000):
        try:
            take(limits, "a", "ann", "mail")
        except Busy:
            refused += 1
    assert refused == 0


@given(st.integers(1, 600), st.lists(st.floats(0, 5), max_size=200))
def test_no_window_ever_lets_more_through_than_a_burst_and_its_share(a_minute: int, pauses: list[float]) -> None:
    time = Time()
    limits = limits_of(CallLimits(per_principal=a_minute), time)
    passed = 0
    for pause in pauses:
        time.now += pause
        try:
            take(limits, "a", "ann", "mail")
        except Busy as busy:
            assert busy.details["retry_after"] > 0
        else:
            passed += 1
    assert passed <= a_minute + (time.now - 1000.0) * a_minute / 60 + 1

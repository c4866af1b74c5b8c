"""How much in a day: counted over restarts, by all who share a store, and anew at midnight."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from paddock.core.errors import Busy
from paddock.gate.admission.call_limits import CallLimits, LimitKey
from paddock.gate.admission.quotas import DailyQuotas, open_quotas
from paddock.store.database import open_database

EVENING = datetime(2026, 11, 16, 23, 0, tzinfo=UTC)


class At:
    """A clock that stands."""

    def __init__(self, now: datetime) -> None:
        self.at = now

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0


def whose(tenant: str, principal: str, plugin: str) -> tuple[LimitKey, ...]:
    return LimitKey(tenant, "tenant", ""), LimitKey(tenant, "principal", principal), LimitKey(tenant, "plugin", plugin)


def refused(quotas: DailyQuotas, tenant: str, principal: str, plugin: str) -> Busy:
    with pytest.raises(Busy) as busy:
        quotas.take(*whose(tenant, principal, plugin))
    return busy.value


def test_whoever_used_their_day_is_told_when_the_next_begins() -> None:
    clock = At(EVENING)
    quotas = DailyQuotas(CallLimits(per_principal=2), clock)
    for _ in range(2):
        quotas.take(*whose("a", "ann", "mail"))

    error = refused(quotas, "a", "ann", "mail")
    quotas.take(*whose("a", "bob", "mail"))
    quotas.take(*whose("b", "ann", "mail"))
    assert (error.error_code, error.retryable) == ("quota_exceeded", True)
    assert error.details == {"retry_after": 3601, "limit_per_day": 2}

    clock.at += timedelta(seconds=error.details["retry_after"])
    quotas.take(*whose("a", "ann", "mail"))


def test_a_call_that_is_refused_for_one_limit_uses_none_of_the_others() -> None:
    quotas = DailyQuotas(CallLimits(per_tenant=2, per_plugin=1), At(EVENING))
    quotas.take(*whose("a", "ann", "mail"))
    for _ in range(3):
        refused(quotas, "a", "ann", "mail")
    quotas.take(*whose("a", "ann", "post"))


async def test_what_was_used_is_remembered_by_the_next_host(database_address: str) -> None:
    async with open_database(database_address) as database:
        clock, a_day = At(EVENING), CallLimits(per_plugin=3)
        async with open_quotas(a_day, database, clock) as quotas:
            quotas.take(*whose("a", "ann", "mail"))
            quotas.take(*whose("a", "ann", "mail"))
        async with open_quotas(a_day, database, clock) as quotas:
            quotas.take(*whose("a", "ann", "mail"))
            refused(quotas, "a", "ann", "mail")


async def test_two_hosts_of_one_store_count_together(database_address: str) -> None:
    async with open_database(database_address) as database:
        clock, a_day = At(EVENING), CallLimits(per_tenant=4)
        one, other = DailyQuotas(a_day, clock), DailyQuotas(a_day, clock)
        for quotas in (one, one, other, other):
            quotas.take(*whose("a", "ann", "mail"))
        await one.flush(database)
        await other.flush(database)

        refused(other, "a", "ann", "mail")
        one.take(*whose("a", "ann", "mail"))  # it has not heard of the other's yet
        await one.flush(database)
        refused(one, "a", "ann", "mail")


async def test_days_that_are_long_over_are_forgotten(database_address: str) -> None:
    async with open_database(database_address) as database:
        clock = At(EVENING)
        quotas = DailyQuotas(CallLimits(per_tenant=9), clock)
        for _ in range(2):
            quotas.take(*whose("a", "ann", "mail"))
            await quotas.flush(database)
            clock.at += timedelta(days=40)
        quotas.take(*whose("a", "ann", "mail"))
        await quotas.flush(database)

        days = await database.read(lambda tx: tx.all("SELECT day FROM quota_use ORDER BY day"))
        assert [row["day"] for row in days] == ["2027-02-04"]

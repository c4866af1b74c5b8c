"""Limits on concurrent calls: one plugin or tenant cannot take the slots of others."""

from __future__ import annotations

import pytest

from paddock.core.errors import Busy
from paddock.core.ids import Digest, PluginName, Tenant
from paddock.runtime.deployment import InstanceKey
from paddock.runtime.limits.concurrency import MAX_CALLS, MAX_CALLS_PER_PLUGIN, MAX_CALLS_PER_TENANT, ConcurrencyLimiter


def key(tenant: str) -> InstanceKey:
    return InstanceKey(Tenant(tenant), PluginName("echo"), Digest("sha256:00"))


def taken(seats: ConcurrencyLimiter, tenant: str) -> int:
    """How many a tenant gets that takes all it can."""
    for count in range(MAX_CALLS + 1):
        try:
            seats.acquire(key(tenant), 0)
        except Busy:
            return count
    raise AssertionError("there is no end to them")


def test_a_plugin_and_a_tenant_have_so_many_and_no_more() -> None:
    seats = ConcurrencyLimiter()
    with pytest.raises(Busy, match="echo works on 64 calls"):
        seats.acquire(key("acme"), MAX_CALLS_PER_PLUGIN)
    assert taken(seats, "acme") == MAX_CALLS_PER_TENANT
    seats.release(key("acme"))
    seats.acquire(key("acme"), 0)


def test_however_greedy_others_are_a_tenant_that_comes_late_finds_a_seat() -> None:
    seats = ConcurrencyLimiter()
    greedy = [taken(seats, f"greedy-{number}") for number in range(6)]
    late = taken(seats, "late")

    assert greedy[:3] == [MAX_CALLS_PER_TENANT] * 3
    assert all(some > 0 for some in greedy)
    assert late > 0
    assert sum(greedy) + late <= MAX_CALLS

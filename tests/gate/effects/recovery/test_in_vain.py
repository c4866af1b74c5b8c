"""Probes that find nothing, by call and for how long."""

from __future__ import annotations

from paddock.core.ids import CallId
from paddock.gate.recovery import PROBE_RETENTION_S, NegativeProbes

ONE, OTHER = CallId("call_1"), CallId("call_2")


def test_it_lasts_from_the_first_time_that_nothing_was_found_until_something_is() -> None:
    vain = NegativeProbes()
    assert [vain.not_found_for(10, ONE, now) for now in (100.0, 109.9, 110.0)] == [False, False, True]
    assert not vain.not_found_for(10, OTHER, 110.0)
    vain.forget(ONE)
    assert not vain.not_found_for(10, ONE, 111.0)


def test_nothing_is_kept_for_long_of_calls_that_nobody_asks_about_any_more() -> None:
    vain = NegativeProbes()
    for number in range(1000):
        vain.not_found_for(10, CallId(f"call_{number}"), 100.0)
    vain.not_found_for(10, ONE, 110.0 + PROBE_RETENTION_S)
    assert len(vain) == 1000
    vain.not_found_for(10, OTHER, 111.0 + PROBE_RETENTION_S)
    assert len(vain) == 1

"""When something is tried again, as arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from paddock.queue.schedule import (
    ClockReading,
    RescheduleAt,
    RetriesExhausted,
    RetryPolicy,
    backoff_delay,
    decide_retry,
    seconds_until,
    wall_clock_went_back,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Chance:
    """Gives the same bytes for ever."""

    def __init__(self, byte: int) -> None:
        self._byte = byte

    def bytes(self, count: int) -> bytes:
        return bytes([self._byte]) * count


def test_pauses_double_up_to_the_longest_and_then_it_is_given_up() -> None:
    pauses = RetryPolicy(first_delay_s=1, max_delay_s=5, max_tries=5)

    verdicts = [decide_retry(tries, NOW, Chance(0), pauses) for tries in range(1, 6)]

    assert verdicts == [*(RescheduleAt(NOW + timedelta(seconds=s)) for s in (1, 2, 4, 5)), RetriesExhausted(5)]


@given(
    tries=st.integers(0, 10**6),
    first=st.floats(0.001, 1_000),
    longest=st.floats(0.001, 100_000),
    byte=st.integers(0, 255),
)
def test_a_pause_stays_within_its_bounds_whatever_the_numbers(
    tries: int, first: float, longest: float, byte: int
) -> None:
    pauses = RetryPolicy(first_delay_s=first, max_delay_s=longest, max_tries=10**9)

    verdict = decide_retry(tries, NOW, Chance(byte), pauses)

    assert isinstance(verdict, RescheduleAt)
    waited = (verdict.due - NOW).total_seconds()
    assert min(first, longest) - 1e-5 <= waited <= longest * 1.2 + 1e-5
    assert backoff_delay(tries, pauses) <= backoff_delay(tries + 1, pauses)


def test_a_wait_is_never_longer_than_it_may_be_and_never_negative() -> None:
    day = timedelta(days=1)
    assert [seconds_until(due, NOW, 5) for due in (None, NOW - day, NOW + timedelta(seconds=2), NOW + day)] == [
        5,
        0,
        2,
        5,
    ]


def test_a_calendar_that_falls_behind_the_other_clock_was_set_back_and_one_that_runs_ahead_was_not() -> None:
    before, day = ClockReading(NOW, 100.0), timedelta(days=1)
    after_10_s = {
        "as it should": ClockReading(NOW + timedelta(seconds=10), 110.0),
        "a bit slow": ClockReading(NOW + timedelta(seconds=9.5), 110.0),
        "set ahead": ClockReading(NOW + day, 110.0),
        "set back": ClockReading(NOW - day, 110.0),
        "set back a little": ClockReading(NOW + timedelta(seconds=5), 110.0),
    }
    noticed = {how for how, now in after_10_s.items() if wall_clock_went_back(before, now)}
    assert noticed == {"set back", "set back a little"}
    assert wall_clock_went_back(None, before), "nobody knows what was before"

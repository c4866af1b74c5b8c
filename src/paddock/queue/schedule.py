"""When something is done again, and when it is given up: pure arithmetic over times that are given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from paddock.core.clock import Random

FIRST_RETRY_DELAY_S = 1.0
MAX_RETRY_DELAY_S = 900.0
MAX_TRIES = 10
_MAX_CLOCK_DRIFT_S = 1.0  # seconds that two clocks of one machine may be apart after some
_MAX_DOUBLINGS = 32  # beyond these every pause is the longest, and no number grows without end


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait after each failure, in seconds, and after how many to give up."""

    first_delay_s: float = FIRST_RETRY_DELAY_S
    max_delay_s: float = MAX_RETRY_DELAY_S
    max_tries: int = MAX_TRIES


@dataclass(frozen=True, slots=True)
class RescheduleAt:
    """Do it once more at this time."""

    due: datetime


@dataclass(frozen=True, slots=True)
class RetriesExhausted:
    """It failed so often that it is not tried any more."""

    tries: int


JobRetryDecision: TypeAlias = RescheduleAt | RetriesExhausted


def decide_retry(tries: int, now: datetime, random: Random, pauses: RetryPolicy | None = None) -> JobRetryDecision:
    """What becomes of something that failed.

    Args:
        tries: How often it was tried, this time included.
        now: When it failed.
        random: Spreads those that failed together.
        pauses: Its bounds.
    """
    pauses = pauses or RetryPolicy()
    if tries >= pauses.max_tries:
        return RetriesExhausted(tries)
    return RescheduleAt(now + timedelta(seconds=add_jitter(backoff_delay(tries, pauses), random)))


def backoff_delay(tries: int, pauses: RetryPolicy) -> float:
    """Seconds until the next try: twice as long after each, up to the longest."""
    return min(pauses.first_delay_s * 2.0 ** min(max(tries, 1) - 1, _MAX_DOUBLINGS), pauses.max_delay_s)


def add_jitter(seconds: float, random: Random) -> float:
    """Up to a fifth longer, so that what fell together does not rise together."""
    return seconds * (1 + int.from_bytes(random.bytes(2)) / 0xFFFF / 5)


class ClockReading(NamedTuple):
    """One moment on both clocks: the calendar, and the time that only ever grows."""

    wall: datetime
    monotonic: float


def wall_clock_went_back(before: ClockReading | None, now: ClockReading) -> bool:
    """Whether the calendar may have been set back: it fell behind the other clock, or nobody looked before."""
    if before is None:
        return True
    return (now.wall - before.wall).total_seconds() < now.monotonic - before.monotonic - _MAX_CLOCK_DRIFT_S


def seconds_until(due: datetime | None, now: datetime, longest: float) -> float:
    """How long to wait for something that is due then; no longer than `longest`, for a clock may be moved."""
    if due is None:
        return longest
    return min(max((due - now).total_seconds(), 0.0), longest)

"""Decides when a job is retried and when it is given up. Pure functions of given times."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from paddock.core.clock import Random

FIRST_RETRY_DELAY_S = 1.0
MAX_RETRY_DELAY_S = 900.0
MAX_TRIES = 10
_MAX_CLOCK_DRIFT_S = 1.0  # between two clocks of one machine
_MAX_DOUBLINGS = 32  # beyond these the delay is the maximum anyway, and the exponent stays bounded


class RetryPolicy(Struct, frozen=True):
    """The delays after failures, in seconds, and the number of tries before giving up."""

    first_delay_s: float = FIRST_RETRY_DELAY_S
    max_delay_s: float = MAX_RETRY_DELAY_S
    max_tries: int = MAX_TRIES


class RescheduleAt(Struct, frozen=True):
    """Run the job again at this time."""

    due: datetime


class RetriesExhausted(Struct, frozen=True):
    """The job failed too often and is given up."""

    tries: int


JobRetryDecision: TypeAlias = RescheduleAt | RetriesExhausted


def decide_retry(tries: int, now: datetime, random: Random, policy: RetryPolicy | None = None) -> JobRetryDecision:
    """Decide what happens to a job that failed.

    Args:
        tries: How often it was tried, this time included.
        now: When it failed.
        random: Source of the jitter.
        policy: Its delays and limit.
    """
    policy = policy or RetryPolicy()
    if tries >= policy.max_tries:
        return RetriesExhausted(tries)
    return RescheduleAt(now + timedelta(seconds=add_jitter(backoff_delay(tries, policy), random)))


def backoff_delay(tries: int, policy: RetryPolicy) -> float:
    """Return the seconds until the next try: doubled after each, up to the maximum."""
    return min(policy.first_delay_s * 2.0 ** min(max(tries, 1) - 1, _MAX_DOUBLINGS), policy.max_delay_s)


def add_jitter(seconds: float, random: Random) -> float:
    """Add up to a fifth, so that jobs that failed together are not retried together."""
    return seconds * (1 + int.from_bytes(random.bytes(2)) / 0xFFFF / 5)


class ClockReading(NamedTuple):
    """One moment on both clocks: wall clock and monotonic."""

    wall: datetime
    monotonic: float


def wall_clock_went_back(before: ClockReading | None, now: ClockReading) -> bool:
    """Whether the wall clock may have been set back: it fell behind the monotonic one, or this is the first reading."""
    if before is None:
        return True
    return (now.wall - before.wall).total_seconds() < now.monotonic - before.monotonic - _MAX_CLOCK_DRIFT_S


def seconds_until(due: datetime | None, now: datetime, max_s: float) -> float:
    """Return how long to wait until `due`; at most `max_s`, since the clock may be moved."""
    if due is None:
        return max_s
    return min(max((due - now).total_seconds(), 0.0), max_s)

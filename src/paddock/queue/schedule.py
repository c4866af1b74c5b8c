"""When something is done again, and when it is given up: pure arithmetic over times that are given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from paddock.core.clock import Random

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 900.0
MOST_TRIES = 10
_DRIFT = 1.0  # seconds that two clocks of one machine may be apart after some
_DOUBLINGS = 32  # beyond these every pause is the longest, and no number grows without end


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to wait after each failure, in seconds, and after how many to give up."""

    first: float = FIRST_PAUSE
    longest: float = LONGEST_PAUSE
    tries: int = MOST_TRIES


@dataclass(frozen=True, slots=True)
class Again:
    """Do it once more at this time."""

    due: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It failed so often that it is not tried any more."""

    tries: int


Verdict: TypeAlias = Again | GiveUp


def after_failure(tries: int, now: datetime, random: Random, pauses: Pauses | None = None) -> Verdict:
    """What becomes of something that failed.

    Args:
        tries: How often it was tried, this time included.
        now: When it failed.
        random: Spreads those that failed together.
        pauses: Its bounds.
    """
    pauses = pauses or Pauses()
    if tries >= pauses.tries:
        return GiveUp(tries)
    return Again(now + timedelta(seconds=with_jitter(pause(tries, pauses), random)))


def pause(tries: int, pauses: Pauses) -> float:
    """Seconds until the next try: twice as long after each, up to the longest."""
    return min(pauses.first * 2.0 ** min(max(tries, 1) - 1, _DOUBLINGS), pauses.longest)


def with_jitter(seconds: float, random: Random) -> float:
    """Up to a fifth longer, so that what fell together does not rise together."""
    return seconds * (1 + int.from_bytes(random.bytes(2)) / 0xFFFF / 5)


class Moment(NamedTuple):
    """One moment on both clocks: the calendar, and the time that only ever grows."""

    calendar: datetime
    ran: float


def was_set_back(before: Moment | None, now: Moment) -> bool:
    """Whether the calendar may have been set back: it fell behind the other clock, or nobody looked before."""
    if before is None:
        return True
    return (now.calendar - before.calendar).total_seconds() < now.ran - before.ran - _DRIFT


def seconds_until(due: datetime | None, now: datetime, longest: float) -> float:
    """How long to wait for something that is due then; no longer than `longest`, for a clock may be moved."""
    if due is None:
        return longest
    return min(max((due - now).total_seconds(), 0.0), longest)

"""What becomes of an entry that a webhook did not take: another try and when, or none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from paddock.core.clock import Random
from paddock.queue.schedule import Again, Pauses, pause, with_jitter

GONE = 410
LONGEST_PAUSE = 4 * 3600.0
LONGEST_WAIT = 24 * 3600.0  # that a receiver can ask for
NOT_TAKEN = frozenset({400, 413, 414, 415, 422})
"""Answers that say: not this one. They are hardly ever otherwise a moment later, and hold up all that follows."""
TRIES_OF_NOT_TAKEN = 3


class Attempt(NamedTuple):
    """What came of sending one event."""

    status: int | None = None
    reason: str = ""
    """Why it was not taken; empty where it was."""
    wait: float = 0.0
    """Seconds that the receiver asks to wait for before the next."""

    @property
    def taken(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Terms:
    """How long somebody who takes nothing is waited for; see the settings `events`."""

    attempts: int = 14
    first_pause: float = 5.0


@dataclass(frozen=True, slots=True)
class Dead:
    """It is not tried any more."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The receiver says that it is there no more: nothing is sent to it until somebody switches it on."""


Verdict: TypeAlias = Again | Dead | Gone


def after(attempt: Attempt, tried: int, now: datetime, random: Random, terms: Terms) -> Verdict:
    """What becomes of an entry after this attempt, which was the `tried`-th; not for one that was taken."""
    if attempt.status == GONE:
        return Gone()
    most = min(terms.attempts, TRIES_OF_NOT_TAKEN) if attempt.status in NOT_TAKEN else terms.attempts
    if tried >= most:
        return Dead()
    seconds = with_jitter(pause(tried, Pauses(terms.first_pause, LONGEST_PAUSE)), random)
    return Again(now + timedelta(seconds=max(seconds, min(attempt.wait, LONGEST_WAIT))))

"""What becomes of an entry that a webhook did not take: another try and when, or none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from paddock.core.clock import Random
from paddock.queue.schedule import RescheduleAt, RetryPolicy, add_jitter, backoff_delay

HTTP_GONE = 410
MAX_BACKOFF_S = 4 * 3600.0
MAX_RETRY_AFTER_S = 24 * 3600.0  # that a receiver can ask for
REJECTED_STATUSES = frozenset({400, 413, 414, 415, 422})
"""Answers that say: not this one. They are hardly ever otherwise a moment later, and hold up all that follows."""
MAX_REJECTED_ATTEMPTS = 3


class DeliveryAttempt(NamedTuple):
    """What came of sending one event."""

    status: int | None = None
    reason: str = ""
    """Why it was not taken; empty where it was."""
    retry_after_s: float = 0.0
    """Seconds that the receiver asks to wait for before the next."""

    @property
    def succeeded(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class DeliveryRetryPolicy:
    """How long somebody who takes nothing is waited for; see the settings `events`."""

    max_attempts: int = 14
    first_backoff_s: float = 5.0


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """It is not tried any more."""


@dataclass(frozen=True, slots=True)
class ReceiverGone:
    """The receiver says that it is there no more: nothing is sent to it until somebody switches it on."""


RetryDecision: TypeAlias = RescheduleAt | DeadLettered | ReceiverGone


def decide_retry(
    attempt: DeliveryAttempt, tried: int, now: datetime, random: Random, terms: DeliveryRetryPolicy
) -> RetryDecision:
    """What becomes of an entry after this attempt, which was the `tried`-th; not for one that was taken."""
    if attempt.status == HTTP_GONE:
        return ReceiverGone()
    most = min(terms.max_attempts, MAX_REJECTED_ATTEMPTS) if attempt.status in REJECTED_STATUSES else terms.max_attempts
    if tried >= most:
        return DeadLettered()
    seconds = add_jitter(backoff_delay(tried, RetryPolicy(terms.first_backoff_s, MAX_BACKOFF_S)), random)
    return RescheduleAt(now + timedelta(seconds=max(seconds, min(attempt.retry_after_s, MAX_RETRY_AFTER_S))))


_PRIVATE_ADDRESS_HINT: Final = (
    "it leads to an address that is not public; name that in events.private_receivers, and start the daemon anew:"
    " it reads its settings when it starts"
)
_TIMEOUT_HINT: Final = "nothing came back in time; see whether it runs and can be reached from here"

_HINTS: Final = {
    "not_allowed": _PRIVATE_ADDRESS_HINT,
    "webhook.not_allowed": _PRIVATE_ADDRESS_HINT,
    "webhook.not_https": "events are not sent to a public address in the clear; use https://",
    "net.refused": "nobody listens there; start the receiver, or see whether the port is right",
    "net.unresolved": "its name leads nowhere; see whether the name is right",
    "net.unreachable": "there is no way to it from this machine",
    "net.timeout": _TIMEOUT_HINT,
    "timeout": _TIMEOUT_HINT,
    "untrusted": "its certificate is signed by nobody whom this machine trusts",
    "lost": "it ended the connection before it answered; look at its log",
    "too_large": "its answer is too large to be read; an empty one is enough",
}


def failure_hint(reason: str) -> str:
    """What a reason means and what to do; empty where there is no more to say than the reason does."""
    kind, _, number = reason.partition("status.")
    if kind or not number:
        return _HINTS.get(reason, "")
    if number.startswith("3"):
        return f"it answered {number}, and redirects are not followed; give the address that it leads to"
    if number in ("401", "403"):
        return f"it answered {number}; see whether it has the webhook's secret (paddock webhook rotate gives another)"
    return f"it answered {number}, and takes an event by answering 200 to 299; look at its log"

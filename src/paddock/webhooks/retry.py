"""Retry decisions for webhook deliveries, and hints about failures. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from paddock.core.clock import Random
from paddock.queue.schedule import RescheduleAt, RetryPolicy, add_jitter, backoff_delay

HTTP_GONE = 410
MAX_BACKOFF_S = 4 * 3600.0
MAX_RETRY_AFTER_S = 24 * 3600.0  # maximum that a receiver can ask for
REJECTED_STATUSES = frozenset({400, 413, 414, 415, 422})
"""Statuses that reject this one event. A retry rarely helps and holds up everything behind it."""
MAX_REJECTED_ATTEMPTS = 3


class DeliveryAttempt(NamedTuple):
    """The result of sending one event."""

    status: int | None = None
    reason: str = ""
    """Why it failed; empty if it succeeded."""
    retry_after_s: float = 0.0
    """The receiver's `Retry-After`."""

    @property
    def succeeded(self) -> bool:
        return not self.reason


class DeliveryRetryPolicy(Struct, frozen=True):
    """Limits for retries; see the settings `events`."""

    max_attempts: int = 14
    first_backoff_s: float = 5.0


class DeadLettered(Struct, frozen=True):
    """The entry is not tried any more."""


class ReceiverGone(Struct, frozen=True):
    """The receiver answered 410 Gone: the webhook is disabled until an operator enables it."""


RetryDecision: TypeAlias = RescheduleAt | DeadLettered | ReceiverGone


def decide_retry(
    attempt: DeliveryAttempt, attempts: int, now: datetime, random: Random, policy: DeliveryRetryPolicy
) -> RetryDecision:
    """Decide what happens to an entry after its failed attempt number `attempts`."""
    if attempt.status == HTTP_GONE:
        return ReceiverGone()
    max_attempts = (
        min(policy.max_attempts, MAX_REJECTED_ATTEMPTS) if attempt.status in REJECTED_STATUSES else policy.max_attempts
    )
    if attempts >= max_attempts:
        return DeadLettered()
    delay_s = add_jitter(backoff_delay(attempts, RetryPolicy(policy.first_backoff_s, MAX_BACKOFF_S)), random)
    return RescheduleAt(now + timedelta(seconds=max(delay_s, min(attempt.retry_after_s, MAX_RETRY_AFTER_S))))


_PRIVATE_ADDRESS_HINT: Final = (
    "it leads to an address that is not public; allow that in config.toml, as in"
    ' [events] private_receivers = ["127.0.0.1:5678"], and restart the daemon'
)
_TIMEOUT_HINT: Final = "nothing came back in time; see whether it runs and can be reached from here"

_HINTS: Final = {
    "not_allowed": _PRIVATE_ADDRESS_HINT,
    "webhook.not_allowed": _PRIVATE_ADDRESS_HINT,
    "webhook.not_https": "events are not sent to a public address in the clear; use https://",
    "net.refused": "the connection was refused; start the receiver, or check the port",
    "net.unresolved": "its host name does not resolve; check the name",
    "net.unreachable": "this machine has no route to it",
    "net.timeout": _TIMEOUT_HINT,
    "timeout": _TIMEOUT_HINT,
    "untrusted": "this machine does not trust the issuer of its certificate",
    "lost": "it closed the connection before it answered; check its log",
    "too_large": "its answer is too large to be read; an empty one is enough",
}


def failure_hint(reason: str) -> str:
    """Return an explanation of a failure reason with a remedy; empty if the reason says it all."""
    prefix, _, status = reason.partition("status.")
    if prefix or not status:
        return _HINTS.get(reason, "")
    if status.startswith("3"):
        return f"it answered {status}, and redirects are not followed; use the address that it redirects to"
    if status in ("401", "403"):
        return f"it answered {status}; check that it has the webhook's current secret, or rotate the secret"
    return f"it answered {status}, and has to answer 200 to 299 to accept an event; check its log"

"""When an operator that is still at work is asked again, and when nobody asks any more: pure arithmetic over times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from paddock.core.call import OperatorProgress
from paddock.core.errors import TimedOut
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.plugins.dialects.envelope import InProgress
from paddock.queue.schedule import RetryPolicy, backoff_delay

DEFAULT_MAX_PROGRESS_S = 86_400.0
MAX_POLLS = 10_000
MIN_POLL_DELAY_S = 0.2  # seconds, whatever an operator says
MAX_POLL_DELAY_S = 3600.0
_BACKOFF = RetryPolicy(max_delay_s=60.0)  # where it says nothing


@dataclass(frozen=True, slots=True)
class PollState:
    """What is kept of work in progress, beside what its call was made with."""

    until: str
    asked: int
    result: Any

    @staticmethod
    def first(pending: InProgress, now: datetime, max_seconds: float) -> PollState:
        return PollState((now + timedelta(seconds=max_seconds)).isoformat(), 1, pending.result)

    @staticmethod
    def from_record(effect: IdempotencyRecord) -> PollState | None:
        """What a record has of it; None where its plugin was uninstalled since, and all of that with it."""
        stored = (effect.context or {}).get("in_progress")
        return None if stored is None else PollState(**stored)

    def stored_in(self, context: Mapping[str, Any]) -> dict[str, Any]:
        return {**context, "in_progress": asdict(self)}

    @property
    def operator_progress(self) -> OperatorProgress:
        """What the operator is told."""
        return OperatorProgress(self.asked, self.result)

    def is_expired(self, now: datetime) -> bool:
        return now >= datetime.fromisoformat(self.until) or self.asked >= MAX_POLLS

    def after_poll(self, pending: InProgress | None) -> PollState:
        """With what the operator said, where it was reached."""
        updated = self if pending is None else replace(self, result=pending.result)
        return replace(updated, asked=self.asked + 1)

    def next_poll_at(self, now: datetime, retry_after: float | None) -> datetime:
        """When to look next."""
        return min(now + timedelta(seconds=poll_delay(self.asked, retry_after)), datetime.fromisoformat(self.until))


def poll_delay(polls: int, retry_after: float | None) -> float:
    """Seconds until an operator is asked for this time: as it says, within bounds, else twice as long each time."""
    if retry_after is None:
        return backoff_delay(polls, _BACKOFF)
    return min(max(retry_after, MIN_POLL_DELAY_S), MAX_POLL_DELAY_S)


def progress_timeout_error(plugin: str, max_seconds: float) -> TimedOut:
    """What whoever waits for it is told then."""
    return TimedOut(
        f"{plugin} was not through with it after {max_seconds:g} s, and is not asked any more",
        code="call.in_progress_too_long",
        hint="whoever operates the host can give such work more time: limits.in_progress_s",
        details={"plugin": plugin},
    )

"""Poll schedule of an operator that is still working: when to poll again and when to give up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, TypedDict

from msgspec import Struct
from msgspec.structs import asdict, replace

from paddock.core.call import OperatorProgress
from paddock.core.errors import TimedOut
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.plugins.dialects.envelope import InProgress
from paddock.queue.schedule import RetryPolicy, backoff_delay

DEFAULT_MAX_PROGRESS_S = 86_400.0
MAX_POLLS = 10_000
MIN_POLL_DELAY_S = 0.2  # even if an operator asks for less
MAX_POLL_DELAY_S = 3600.0
_BACKOFF = RetryPolicy(max_delay_s=60.0)  # if the operator gives no `retry_after`


class CallProgressJson(TypedDict):
    """The state of a call whose operation goes on at the plugin's operator."""

    until: Annotated[DateTime, "When polling ends."]
    asked: Annotated[NonNegativeInt, "The number of polls."]
    result: Annotated[Any, "The latest interim result."]
    next: Annotated[DateTime | None, "When it is polled next."]


class PollState(Struct, frozen=True):
    """Poll state of work in progress, stored in the context of its call.

    `asked` counts the polls, including the first call; `result` is the operator's latest interim result.
    """

    until: str
    asked: int
    result: Any

    @staticmethod
    def first(pending: InProgress, now: datetime, max_seconds: float) -> PollState:
        return PollState((now + timedelta(seconds=max_seconds)).isoformat(), 1, pending.result)

    @staticmethod
    def from_record(effect: IdempotencyRecord) -> PollState | None:
        """Load the poll state from a record; None if the plugin was uninstalled since, which erases it."""
        stored = (effect.context or {}).get("in_progress")
        return None if stored is None else PollState(**stored)

    def stored_in(self, context: Mapping[str, Any]) -> dict[str, Any]:
        return {**context, "in_progress": asdict(self)}

    @property
    def operator_progress(self) -> OperatorProgress:
        """The progress that is passed to the operator."""
        return OperatorProgress(self.asked, self.result)

    def is_expired(self, now: datetime) -> bool:
        return now >= datetime.fromisoformat(self.until) or self.asked >= MAX_POLLS

    def after_poll(self, pending: InProgress | None) -> PollState:
        """Return the state after a poll, with the operator's result if it was reached."""
        updated = self if pending is None else replace(self, result=pending.result)
        return replace(updated, asked=self.asked + 1)

    def next_poll_at(self, now: datetime, retry_after: float | None) -> datetime:
        """Return the time of the next poll."""
        return min(now + timedelta(seconds=poll_delay(self.asked, retry_after)), datetime.fromisoformat(self.until))


def poll_delay(polls: int, retry_after: float | None) -> float:
    """Return the seconds until the next poll: `retry_after` within bounds, or exponential backoff."""
    if retry_after is None:
        return backoff_delay(polls, _BACKOFF)
    return min(max(retry_after, MIN_POLL_DELAY_S), MAX_POLL_DELAY_S)


def progress_timeout_error(plugin: str, max_seconds: float) -> TimedOut:
    """Build the error for callers of work that exceeded its time limit."""
    return TimedOut(
        f"{plugin} did not finish within {max_seconds:g} s, and is not polled any more",
        code="call.in_progress_too_long",
        hint="an operator of the host can raise the limit: limits.in_progress_s",
        details={"plugin": plugin},
    )

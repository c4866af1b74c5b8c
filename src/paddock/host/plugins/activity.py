"""How much a plugin is called, how often that fails, how long it takes, and how much memory it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

from paddock.cage.cgroups.fallback_limits import memory_used
from paddock.core.clock import Clock
from paddock.core.ids import Tenant
from paddock.ledger.read.entries import EndedCall, EndedCalls, list_ended_calls
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import Database

FAILED_STATUSES: Final = frozenset({"failed", "in_doubt", "timed_out"})
REJECTED_STATUSES: Final = frozenset({"denied", "refused", "cancelled"})
_PENDING_STATUS: Final = "pending_approval"  # it ends once more, after somebody said yes


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time that is looked at, in equal parts."""

    words: str
    length: timedelta
    parts: int


TIME_WINDOWS: Final = (
    TimeWindow("10 minutes", timedelta(minutes=10), 20),
    TimeWindow("hour", timedelta(hours=1), 30),
    TimeWindow("24 hours", timedelta(hours=24), 24),
    TimeWindow("two weeks", timedelta(days=14), 14),
)
_DAY_INDEX: Final = 2  # which of them


@dataclass(frozen=True, slots=True)
class ActivityBucket:
    """What happened in one part of a span."""

    since: datetime
    succeeded: int = 0
    failed: int = 0
    turned_away: int = 0
    median_ms: float | None = None
    slow_ms: float | None = None

    @property
    def calls(self) -> int:
        return self.succeeded + self.failed + self.turned_away


@dataclass(frozen=True, slots=True)
class ActivitySummary:
    """What happened over a span; the times are of calls that were answered."""

    span: TimeWindow
    parts: tuple[ActivityBucket, ...]
    median_ms: float | None = None
    slow_ms: float | None = None

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.parts)

    @property
    def failed(self) -> int:
        return sum(one.failed for one in self.parts)


class ActivityReader:
    """Looks at what plugins do.

    Args:
        database: Where it is recorded what became of calls.
        ledger: Has to be on disk before it is read.
        clock: Says until when.
    """

    def __init__(self, database: Database, ledger: LedgerWriter, clock: Clock) -> None:
        self._database = database
        self._ledger = ledger
        self._clock = clock

    async def summarize(self, plugin: str, tenant: Tenant) -> ActivitySummary:
        """The last of a plugin's calls, over as long a time as they are all known of."""
        await self._ledger.flush()
        found = await self._database.read(lambda tx: list_ended_calls(tx, tenant, plugin))
        return await asyncio.to_thread(summarize_calls, found, self._clock.now())

    async def memory_bytes(self, pid: int | None) -> int | None:
        """The bytes that a plugin's processes hold; None where nobody can tell."""
        return await asyncio.to_thread(memory_used, pid) if pid else None


def summarize_calls(found: EndedCalls, now: datetime) -> ActivitySummary:
    """What calls come to, over the span that says most about them."""
    over = [(_parse_time(one.at), one) for one in found.calls if one.status != _PENDING_STATUS]
    reaches = _parse_time(found.since) if found.since is not None else None
    span = _choose_window([at for at, _ in over], reaches, now)
    start, each = now - span.length, span.length / span.parts
    parts: list[list[EndedCall]] = [[] for _ in range(span.parts)]
    for at, one in over:
        if start <= at:
            parts[min(int((at - start) / each), span.parts - 1)].append(one)
    median, slow = _latency_percentiles(one for part in parts for one in part)
    return ActivitySummary(
        span, tuple(_build_bucket(start + number * each, part) for number, part in enumerate(parts)), median, slow
    )


def _choose_window(over: Sequence[datetime], reaches: datetime | None, now: datetime) -> TimeWindow:
    """A day, or as much less as shows the same; less where not all of a day is known, more where nothing was in it."""
    known = [span for span in TIME_WINDOWS if reaches is None or now - span.length >= reaches] or [TIME_WINDOWS[0]]
    if TIME_WINDOWS[_DAY_INDEX] not in known:
        return known[-1]
    shown = {span: sum(at >= now - span.length for at in over) for span in known}
    if in_a_day := shown[TIME_WINDOWS[_DAY_INDEX]]:
        return next(span for span in known if shown[span] == in_a_day)
    return known[-1] if shown[known[-1]] else TIME_WINDOWS[_DAY_INDEX]


def _build_bucket(since: datetime, calls: Sequence[EndedCall]) -> ActivityBucket:
    median, slow = _latency_percentiles(calls)
    failed = sum(one.status in FAILED_STATUSES for one in calls)
    turned_away = sum(one.status in REJECTED_STATUSES for one in calls)
    return ActivityBucket(since, len(calls) - failed - turned_away, failed, turned_away, median, slow)


def _latency_percentiles(calls: Iterable[EndedCall]) -> tuple[float | None, float | None]:
    """How long half of the answers took at most, and 19 of 20."""
    took = sorted(one.duration_ms for one in calls if one.success)
    if not took:
        return None, None
    return took[ceil(len(took) * 0.5) - 1], took[ceil(len(took) * 0.95) - 1]


def _parse_time(at: str) -> datetime:
    found = datetime.fromisoformat(at)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

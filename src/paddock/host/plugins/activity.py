"""Plugin activity: call counts, failure rates, latency percentiles and memory use."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

from msgspec import Struct, field

from paddock.cage.cgroups.fallback_limits import memory_used
from paddock.core.clock import Clock
from paddock.core.ids import Tenant
from paddock.ledger.read.callers import CallerCount, count_callers
from paddock.ledger.read.entries import EndedCall, EndedCalls, list_ended_calls
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import Database

FAILED_STATUSES: Final = frozenset({"failed", "in_doubt", "timed_out"})
REJECTED_STATUSES: Final = frozenset({"denied", "refused", "cancelled"})
PENDING_STATUS: Final = "pending_approval"  # it ends once more, after it was approved


class TimeWindow(Struct, frozen=True):
    """A time window, divided into equal parts."""

    words: str
    length: timedelta
    parts: int


TIME_WINDOWS: Final = (
    TimeWindow("10 minutes", timedelta(minutes=10), 20),
    TimeWindow("hour", timedelta(hours=1), 30),
    TimeWindow("24 hours", timedelta(hours=24), 24),
    TimeWindow("two weeks", timedelta(days=14), 14),
)
_STEP_S: Final = 15  # in which a summary goes on: pages that show it are sent again for calls, not for each second
_DAY_INDEX: Final = 2  # the index of "24 hours" above


class ActivityBucket(Struct, frozen=True):
    """The calls in one part of a time window."""

    since: datetime
    succeeded: int = 0
    failed: int = 0
    rejected: int = 0
    median_ms: float | None = None
    slow_ms: float | None = None

    @property
    def calls(self) -> int:
        return self.succeeded + self.failed + self.rejected


class ActivitySummary(Struct, frozen=True):
    """The calls over a time window; latencies are of successful calls.

    `by_tool` has the calls of each tool in each hour of the last day, oldest first; `callers` those of each principal
    in that day, most first.
    """

    span: TimeWindow
    parts: tuple[ActivityBucket, ...]
    median_ms: float | None = None
    slow_ms: float | None = None
    by_tool: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    callers: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def calls(self) -> int:
        return sum(bucket.calls for bucket in self.parts)

    @property
    def failed(self) -> int:
        return sum(bucket.failed for bucket in self.parts)


class ActivityReader:
    """Reads the activity of plugins.

    Args:
        database: Holds the ledger.
        ledger: Flushed before each read.
        clock: Gives the end of the window.
    """

    def __init__(self, database: Database, ledger: LedgerWriter, clock: Clock) -> None:
        self._database = database
        self._ledger = ledger
        self._clock = clock

    async def summarize(self, plugin: str, tenant: Tenant) -> ActivitySummary:
        """Summarize a plugin's latest calls, over the longest window that the ledger covers completely."""
        await self._ledger.flush()
        ended_calls = await self._database.read(lambda tx: list_ended_calls(tx, tenant, plugin))
        now = self._clock.now()
        step = now.replace(second=now.second // _STEP_S * _STEP_S, microsecond=0)
        return await asyncio.to_thread(summarize_calls, ended_calls, step)

    async def callers(self, tenant: Tenant) -> list[CallerCount]:
        """Count the calls of each principal to each plugin in the last day, most first."""
        await self._ledger.flush()
        since = (self._clock.now() - TIME_WINDOWS[_DAY_INDEX].length).isoformat()
        return await self._database.read(lambda tx: count_callers(tx, tenant, since))

    async def memory_bytes(self, pid: int | None) -> int | None:
        """Return the memory in bytes that a plugin's processes use; None if it cannot be determined."""
        return await asyncio.to_thread(memory_used, pid) if pid else None


def summarize_calls(ended_calls: EndedCalls, now: datetime) -> ActivitySummary:
    """Summarize calls over the window that shows them best."""
    timed_calls = [(_parse_time(call.at), call) for call in ended_calls.calls if call.status != PENDING_STATUS]
    covered_since = _parse_time(ended_calls.since) if ended_calls.since is not None else None
    window = _choose_window([ended_at for ended_at, _ in timed_calls], covered_since, now)
    start, part_length = now - window.length, window.length / window.parts
    parts: list[list[EndedCall]] = [[] for _ in range(window.parts)]
    for ended_at, call in timed_calls:
        if start <= ended_at:
            parts[min(int((ended_at - start) / part_length), window.parts - 1)].append(call)
    median, slow = _latency_percentiles(call for part in parts for call in part)
    day = [(ended_at, call) for ended_at, call in timed_calls if ended_at > now - TIME_WINDOWS[_DAY_INDEX].length]
    return ActivitySummary(
        window,
        tuple(_build_bucket(start + number * part_length, part) for number, part in enumerate(parts)),
        median,
        slow,
        _hourly_counts(day, now),
        dict(Counter(call.caller for _, call in day if call.caller).most_common()),
    )


def _hourly_counts(day: Iterable[tuple[datetime, EndedCall]], now: datetime) -> dict[str, tuple[int, ...]]:
    """Count the calls of each tool in each hour of the last day."""
    hours = TIME_WINDOWS[_DAY_INDEX].parts
    counts: dict[str, list[int]] = {}
    for ended_at, call in day:
        hours_ago = min(int((now - ended_at).total_seconds() // 3_600), hours - 1)
        counts.setdefault(call.tool, [0] * hours)[hours - 1 - max(0, hours_ago)] += 1
    return {tool: tuple(hourly) for tool, hourly in counts.items()}


def _choose_window(ended_at: Sequence[datetime], covered_since: datetime | None, now: datetime) -> TimeWindow:
    """Choose a day, or a shorter window with the same calls; a shorter one too if a day is not covered by the ledger,
    a longer one if a day has no calls.
    """
    covered = [window for window in TIME_WINDOWS if covered_since is None or now - window.length >= covered_since] or [
        TIME_WINDOWS[0]
    ]
    if TIME_WINDOWS[_DAY_INDEX] not in covered:
        return covered[-1]
    counts = {window: sum(time >= now - window.length for time in ended_at) for window in covered}
    if day_count := counts[TIME_WINDOWS[_DAY_INDEX]]:
        return next(window for window in covered if counts[window] == day_count)
    return covered[-1] if counts[covered[-1]] else TIME_WINDOWS[_DAY_INDEX]


def _build_bucket(since: datetime, calls: Sequence[EndedCall]) -> ActivityBucket:
    median, slow = _latency_percentiles(calls)
    failed = sum(call.status in FAILED_STATUSES for call in calls)
    turned_away = sum(call.status in REJECTED_STATUSES for call in calls)
    return ActivityBucket(since, len(calls) - failed - turned_away, failed, turned_away, median, slow)


def _latency_percentiles(calls: Iterable[EndedCall]) -> tuple[float | None, float | None]:
    """Return the 50th and the 95th percentile of the latency of successful calls, in milliseconds."""
    durations = sorted(call.duration_ms for call in calls if call.success)
    if not durations:
        return None, None
    return durations[ceil(len(durations) * 0.5) - 1], durations[ceil(len(durations) * 0.95) - 1]


def _parse_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)

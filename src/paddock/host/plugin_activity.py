"""How much a plugin is called, how often that fails, how long it takes, and how much memory it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

from paddock.cage.limits.watchdog import held
from paddock.core.clock import Clock
from paddock.core.ids import Tenant
from paddock.ledger.ended_calls import Ended, EndedCalls, ended_calls
from paddock.ledger.writer import LedgerWriter
from paddock.store.database import Database

FAILED: Final = frozenset({"failed", "in_doubt", "timed_out"})
TURNED_AWAY: Final = frozenset({"denied", "refused", "cancelled"})
_NOT_OVER: Final = "pending_approval"  # it ends once more, after somebody said yes


@dataclass(frozen=True, slots=True)
class Span:
    """A time that is looked at, in equal parts."""

    words: str
    length: timedelta
    parts: int


SPANS: Final = (
    Span("10 minutes", timedelta(minutes=10), 20),
    Span("hour", timedelta(hours=1), 30),
    Span("24 hours", timedelta(hours=24), 24),
    Span("two weeks", timedelta(days=14), 14),
)
_A_DAY: Final = 2  # which of them


@dataclass(frozen=True, slots=True)
class Part:
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
class Activity:
    """What happened over a span; the times are of calls that were answered."""

    span: Span
    parts: tuple[Part, ...]
    median_ms: float | None = None
    slow_ms: float | None = None

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.parts)

    @property
    def failed(self) -> int:
        return sum(one.failed for one in self.parts)


class PluginActivity:
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

    async def of(self, plugin: str, tenant: Tenant) -> Activity:
        """The last of a plugin's calls, over as long a time as they are all known of."""
        await self._ledger.flushed()
        found = await self._database.read(lambda tx: ended_calls(tx, tenant, plugin))
        return await asyncio.to_thread(activity_of, found, self._clock.now())

    async def memory(self, pid: int | None) -> int | None:
        """The bytes that a plugin's processes hold; None where nobody can tell."""
        return await asyncio.to_thread(held, pid) if pid else None


def activity_of(found: EndedCalls, now: datetime) -> Activity:
    """What calls come to, over the span that says most about them."""
    over = [(_moment(one.at), one) for one in found.calls if one.status != _NOT_OVER]
    reaches = _moment(found.since) if found.since is not None else None
    span = _span([at for at, _ in over], reaches, now)
    start, each = now - span.length, span.length / span.parts
    parts: list[list[Ended]] = [[] for _ in range(span.parts)]
    for at, one in over:
        if start <= at:
            parts[min(int((at - start) / each), span.parts - 1)].append(one)
    median, slow = _times(one for part in parts for one in part)
    return Activity(span, tuple(_part(start + number * each, part) for number, part in enumerate(parts)), median, slow)


def _span(over: Sequence[datetime], reaches: datetime | None, now: datetime) -> Span:
    """A day, or as much less as shows the same; less where not all of a day is known, more where nothing was in it."""
    known = [span for span in SPANS if reaches is None or now - span.length >= reaches] or [SPANS[0]]
    if SPANS[_A_DAY] not in known:
        return known[-1]
    shown = {span: sum(at >= now - span.length for at in over) for span in known}
    if in_a_day := shown[SPANS[_A_DAY]]:
        return next(span for span in known if shown[span] == in_a_day)
    return known[-1] if shown[known[-1]] else SPANS[_A_DAY]


def _part(since: datetime, calls: Sequence[Ended]) -> Part:
    median, slow = _times(calls)
    failed = sum(one.status in FAILED for one in calls)
    turned_away = sum(one.status in TURNED_AWAY for one in calls)
    return Part(since, len(calls) - failed - turned_away, failed, turned_away, median, slow)


def _times(calls: Iterable[Ended]) -> tuple[float | None, float | None]:
    """How long half of the answers took at most, and 19 of 20."""
    took = sorted(one.duration_ms for one in calls if one.success)
    if not took:
        return None, None
    return took[ceil(len(took) * 0.5) - 1], took[ceil(len(took) * 0.95) - 1]


def _moment(at: str) -> datetime:
    found = datetime.fromisoformat(at)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

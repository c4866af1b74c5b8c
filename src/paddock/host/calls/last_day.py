"""The calls of the last 24 hours, by the hour: counts and latency. Each ledger entry is read once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from msgspec import Struct, field

from paddock.core.clock import Clock, format_utc
from paddock.core.ids import Tenant
from paddock.host.calls.day_statistics import (
    MAX_DAY_CALLS,
    DayStatistics,
    last_seq_before,
    parse_facts,
)
from paddock.host.ledger.reader import LedgerReader
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.search import ENDED_CALLS, find_rows
from paddock.store.database import Database, Transaction

SHOWN_HOURS: Final = 24  # the current one is not over yet
_MAX_TENANTS: Final = 64
_HOUR_CHARS: Final = len("2030-01-31T08")


class HourOfCalls(NamedTuple):
    """The calls that ended in one hour."""

    since: datetime
    calls: int
    failed: int
    denied: int


class LastDay(Struct, frozen=True):
    """The calls of the last hours, oldest first. `complete` is false if there were too many to count them all."""

    hours: tuple[HourOfCalls, ...]
    p95_ms: float | None
    complete: bool

    @property
    def calls(self) -> int:
        return sum(hour.calls for hour in self.hours)

    @property
    def failed(self) -> int:
        return sum(hour.failed for hour in self.hours)

    @property
    def denied(self) -> int:
        return sum(hour.denied for hour in self.hours)


class _CountedHours(Struct):
    """The hours of one tenant, up to the entry `last_seq`."""

    last_seq: int
    complete: bool = True
    by_hour: dict[str, DayStatistics] = field(default_factory=dict[str, DayStatistics])

    def merge(self, newer: _CountedHours) -> None:
        """Add what was counted after these."""
        self.last_seq, self.complete = newer.last_seq, self.complete and newer.complete
        for hour, calls in newer.by_hour.items():
            self.by_hour.setdefault(hour, DayStatistics(hour, 0)).merge(calls)


class LastDayReader:
    """Counts the calls of the last day; what was counted before is kept.

    Args:
        ledger: Flushed before each read.
        database: Holds the ledger.
        clock: Gives the end of the day.
    """

    def __init__(self, ledger: LedgerReader, database: Database, clock: Clock) -> None:
        self._ledger = ledger
        self._database = database
        self._clock = clock
        self._tenants: dict[Tenant, _CountedHours] = {}

    async def summarize(self, tenant: Tenant) -> LastDay:
        """Return the calls of the last day."""
        await self._ledger.flush()
        now = self._clock.now().astimezone(UTC)
        first = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=SHOWN_HOURS - 1)
        known = self._tenants.get(tenant)

        def read(tx: Transaction) -> tuple[int, _CountedHours]:
            after = known.last_seq if known else last_seq_before(tx, tenant, format_utc(first))
            return after, _count(after, find_rows(tx, tenant, ENDED_CALLS, after=after, limit=MAX_DAY_CALLS + 1))

        after, newer = await self._database.read(read)
        counted = known or _CountedHours(after)
        if counted.last_seq == after:  # no other request counted these meanwhile
            counted.merge(newer)
        self._keep(tenant, counted)
        return _summary(counted, first)

    def _keep(self, tenant: Tenant, counted: _CountedHours) -> None:
        self._tenants.pop(tenant, None)
        self._tenants[tenant] = counted
        while len(self._tenants) > _MAX_TENANTS:
            del self._tenants[next(iter(self._tenants))]


def _count(after: int, rows: list[SealedEntry]) -> _CountedHours:
    """Count entries, newest first, that follow an entry."""
    counted = _CountedHours(rows[0].seq if rows else after, len(rows) <= MAX_DAY_CALLS)
    for row in rows[:MAX_DAY_CALLS]:
        hour = row.at[:_HOUR_CHARS]
        counted.by_hour.setdefault(hour, DayStatistics(hour, 0)).add([parse_facts(row.facts)])
    return counted


def _summary(counted: _CountedHours, first: datetime) -> LastDay:
    hours: list[HourOfCalls] = []
    together = DayStatistics("", 0)
    wanted = {
        f"{since:%Y-%m-%dT%H}": since for since in (first + timedelta(hours=number) for number in range(SHOWN_HOURS))
    }
    for hour in [hour for hour in counted.by_hour if hour < min(wanted)]:
        del counted.by_hour[hour]  # over
    for name, since in wanted.items():
        of_hour = counted.by_hour.get(name, DayStatistics(name, 0))
        hours.append(HourOfCalls(since, of_hour.calls, of_hour.failed, of_hour.denied))
        together.merge(of_hour)
    return LastDay(tuple(hours), together.percentile_ms(0.95), counted.complete)

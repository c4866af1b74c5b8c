"""How the calls of one day went: counts, and how long they took. Each entry is read once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Final, TypedDict

import orjson
from msgspec import Struct, field

from paddock.core.schema_annotations import NonNegativeInt
from paddock.ledger.entry import parse_object
from paddock.ledger.read.entries import last_seq
from paddock.ledger.read.search import ENDED_CALLS, find_rows
from paddock.store.database import Transaction

MAX_DAY_CALLS: Final = 20_000  # read at once; of a day with more of them the newest count
_BUCKETS_PER_E: Final = 25  # a percentile is right within 4 percent
_FAILED: Final = frozenset({"failed", "in_doubt", "timed_out", "refused"})


class DayStatisticsJson(TypedDict):
    """The calls of one day that have ended, in UTC."""

    day: str
    calls: NonNegativeInt
    failed: NonNegativeInt
    denied: NonNegativeInt
    p50_ms: Annotated[float | None, "Of calls that succeeded, within 4 percent."]
    p95_ms: float | None
    complete: Annotated[bool, "False if the day has more calls than are counted; the newest count then."]


class DayStatistics(Struct):
    """The calls of one day, up to the entry `last_seq`."""

    day: str
    last_seq: int
    calls: int = 0
    failed: int = 0
    denied: int = 0
    complete: bool = True
    durations: Counter[int] = field(default_factory=Counter[int])

    def add(self, facts: Iterable[dict[str, Any]]) -> None:
        """Count calls that ended. One that waits for a person ends once more."""
        for fact in facts:
            status = fact.get("status")
            if status == "pending_approval":
                continue
            self.calls += 1
            self.failed += status in _FAILED
            self.denied += status == "denied"
            duration_ms = fact.get("duration_ms")
            if status == "succeeded" and isinstance(duration_ms, (int, float)):
                self.durations[int(math.log1p(max(0.0, duration_ms)) * _BUCKETS_PER_E)] += 1

    def merge(self, other: DayStatistics) -> None:
        """Count the calls of other statistics too."""
        self.calls += other.calls
        self.failed += other.failed
        self.denied += other.denied
        self.durations.update(other.durations)

    def percentile_ms(self, share: float) -> float | None:
        """Return how long this share of the calls that succeeded took at most."""
        rank, seen = math.ceil(self.durations.total() * share), 0
        for bucket, count in sorted(self.durations.items()):
            seen += count
            if seen >= rank:
                return math.expm1((bucket + 0.5) / _BUCKETS_PER_E)
        return None

    def to_json(self) -> DayStatisticsJson:
        """Serialize the statistics."""
        return {
            "day": self.day,
            "calls": self.calls,
            "failed": self.failed,
            "denied": self.denied,
            "p50_ms": self.percentile_ms(0.5),
            "p95_ms": self.percentile_ms(0.95),
            "complete": self.complete,
        }


def read_calls_of_day(tx: Transaction, tenant: str, after: int, until: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the facts of the calls that ended between two entries, and whether these are all."""
    rows = find_rows(tx, tenant, ENDED_CALLS, after=after, before=until + 1, limit=MAX_DAY_CALLS + 1)
    return [parse_facts(row.facts) for row in rows[:MAX_DAY_CALLS]], len(rows) <= MAX_DAY_CALLS


def parse_facts(text: str) -> dict[str, Any]:
    """Parse the facts of a row."""
    try:
        return orjson.loads(text)
    except ValueError:
        return parse_object(text)


def last_seq_before(tx: Transaction, tenant: str, at: str) -> int:
    """Return the number of the last entry before a time, by bisection: entries are numbered nearly in their order."""
    low, high = 0, last_seq(tx, tenant)
    while low < high:
        middle = (low + high + 1) // 2
        found = tx.one(
            "SELECT at FROM ledger WHERE chain = (SELECT chain FROM ledger_chains WHERE tenant = ?) "
            "AND seq >= 1 AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (tenant, middle),
        )
        if found is None or found["at"] < at:
            low = middle
        else:
            high = middle - 1
    return low

"""The calls of the last day: each entry is counted once, hours pass, and a busy day says that it is not complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from fixtures.ledger_rows import insert_row
from paddock.core.clock import Clock, format_utc
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.calls import last_day
from paddock.host.calls.last_day import LastDayReader
from paddock.host.ledger.reader import LedgerReader
from paddock.ledger.entry_hash import SealedEntry
from paddock.store.database import Database, Transaction, open_database

NOON = datetime(2030, 1, 31, 12, 30, tzinfo=UTC)


@dataclass
class Counted:
    """A ledger that needs no flush, with a clock that can be set."""

    database: Database
    moment: datetime = NOON
    seq: int = field(default=0)

    async def flush(self) -> None: ...

    def now(self) -> datetime:
        return self.moment

    def reader(self) -> LastDayReader:
        return LastDayReader(cast("LedgerReader", self), self.database, cast("Clock", self))

    async def ended(self, at: datetime, *statuses: str, duration_ms: float = 10.0) -> None:
        """Write entries of ended calls, without a chain: nothing here verifies it."""
        first, self.seq = self.seq + 1, self.seq + len(statuses)

        def write(tx: Transaction) -> None:
            for number, status in enumerate(statuses, first):
                facts = f'{{"status":"{status}","duration_ms":{duration_ms}}}'
                unknown: dict[str, Any] = dict.fromkeys(SealedEntry._fields)
                given = {"tenant": DEFAULT_TENANT, "seq": number, "id": f"evt_{number}", "at": format_utc(at)}
                insert_row(tx, SealedEntry(**(unknown | given | {"type": "call.ended", "facts": facts, "hash": b""})))

        await self.database.write(write)


async def test_each_call_is_counted_once_in_its_hour(tmp_path: Path) -> None:
    async with open_database(tmp_path / "paddock.db") as database:
        ledger = Counted(database)
        await ledger.ended(NOON - timedelta(hours=30), "succeeded")  # before the day
        await ledger.ended(NOON - timedelta(hours=2), "succeeded", "failed", "denied", "pending_approval")
        reader = ledger.reader()
        day = await reader.summarize(DEFAULT_TENANT)
        assert (day.calls, day.failed, day.denied, day.complete) == (3, 1, 1, True)
        assert [hour.calls for hour in day.hours[-3:]] == [3, 0, 0]

        await ledger.ended(NOON, "succeeded", duration_ms=1_000.0)
        for _ in range(2):
            day = await reader.summarize(DEFAULT_TENANT)
            assert (day.calls, day.hours[-1].calls) == (4, 1)
        assert day.p95_ms == pytest.approx(1_000, rel=0.05)

        ledger.moment += timedelta(hours=23)
        later = await reader.summarize(DEFAULT_TENANT)
        assert (later.calls, later.hours[0].since) == (1, NOON.replace(minute=0))
        assert (await ledger.reader().summarize(DEFAULT_TENANT)).calls == 1  # as one that starts now


async def test_of_a_day_with_very_many_calls_the_newest_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_day, "MAX_DAY_CALLS", 5)
    async with open_database(tmp_path / "paddock.db") as database:
        ledger = Counted(database)
        await ledger.ended(NOON - timedelta(hours=1), *["failed"] * 4)
        await ledger.ended(NOON, *["succeeded"] * 4)
        day = await ledger.reader().summarize(DEFAULT_TENANT)
        assert (day.calls, day.failed, day.complete) == (5, 1, False)

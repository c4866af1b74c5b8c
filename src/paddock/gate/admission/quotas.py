"""How many calls in a time: for a tenant, for whoever calls, and of a plugin."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple, TypeAlias

import anyio

from paddock.core.clock import Clock
from paddock.core.errors import Busy, PaddockError
from paddock.core.tasks import scoped_tasks
from paddock.store.database import Database, Transaction


class LimitKey(NamedTuple):
    """What is counted: a tenant as a whole, one who calls, or a plugin, each within its tenant."""

    tenant: str
    scope: str
    name: str

    def describe_use(self, most: int) -> str:
        """What whoever is refused is told of it."""
        verb = "had" if self.scope == "plugin" else "made"
        return f"{self.name or 'your tenant'} has {verb} {most:,} calls"


@dataclass(frozen=True, slots=True)
class CallLimits:
    """So many calls; None sets no limit."""

    per_tenant: int | None = None
    per_principal: int | None = None
    per_plugin: int | None = None

    def limit_for(self, whose: LimitKey) -> int | None:
        """The limit for this."""
        match whose.scope:
            case "tenant":
                return self.per_tenant
            case "principal":
                return self.per_principal
            case _:
                return self.per_plugin


NO_LIMITS = CallLimits()


FLUSH_INTERVAL_S = 1.0
RETENTION_DAYS = 31

_Usage: TypeAlias = Counter[LimitKey]


class DailyQuotas:
    """What was used of this day, and what may be.

    Args:
        a_day: How many calls.
        clock: Tells the day.
    """

    def __init__(self, a_day: CallLimits, clock: Clock) -> None:
        self._per_day = a_day
        self.unlimited = a_day == NO_LIMITS
        self._clock = clock
        self._day = ""
        self._used: _Usage = Counter()
        self._unwritten: _Usage = Counter()

    def take(self, *wanted: LimitKey) -> None:
        """Count one call for each of them, or for none.

        Raises:
            Busy: one of them has had as many as it may today; `retry_after` of its details says for how long to wait.
        """
        if self.unlimited:
            return
        now = self._clock.now()
        self._roll_over(now)
        limited = [(whose, most) for whose in wanted if (most := self._per_day.limit_for(whose)) is not None]
        for whose, most in limited:
            if self._used[whose] >= most:
                raise _quota_exceeded_error(whose, most, seconds_until_midnight(now))
        for whose, _ in limited:
            self._used[whose] += 1
            self._unwritten[whose] += 1

    async def flush(self, database: Database) -> None:
        """Write down what was used, and learn what others of the same store have used.

        Raises:
            PaddockError: it cannot be written now; it is kept for the next time.
        """
        day, taken = self._day, self._unwritten
        if not taken:
            return
        self._unwritten = Counter()
        try:
            totals = await database.write(lambda tx: _add_usage(tx, day, taken))
        except PaddockError:
            if day == self._day:
                self._unwritten.update(taken)
            raise
        if day == self._day:
            for whose, used in totals.items():
                self._used[whose] = used + self._unwritten[whose]

    async def load(self, database: Database) -> None:
        """Take up what was used today before this host was opened."""
        self._roll_over(self._clock.now())
        day = self._day
        self._used = await database.read(lambda tx: _read_usage(tx, day))

    def _roll_over(self, now: datetime) -> None:
        day = now.date().isoformat()
        if day != self._day:
            self._day = day
            self._used, self._unwritten = Counter(), Counter()


@asynccontextmanager
async def open_quotas(a_day: CallLimits, database: Database, clock: Clock) -> AsyncGenerator[DailyQuotas, None]:
    """The day's quotas, written down while the block runs and once more at its end."""
    quotas = DailyQuotas(a_day, clock)
    if quotas.unlimited:
        yield quotas
        return
    await quotas.load(database)

    async def keep_forever() -> None:
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            # Not ended half-way: nobody would know then whether what was counted is written down.
            with suppress(PaddockError), anyio.CancelScope(shield=True):  # a store in trouble says so to every call
                await quotas.flush(database)

    async with scoped_tasks() as tasks:
        tasks.start_soon(keep_forever)
        yield quotas
    with suppress(PaddockError):
        await quotas.flush(database)


def erase_usage(tx: Transaction, tenant: str, principals: Collection[str]) -> int:
    """Drop what was counted for somebody; gives how many rows that were."""
    return sum(
        tx.execute("DELETE FROM quota_use WHERE tenant = ? AND whose = 'principal' AND name = ?", (tenant, principal))
        for principal in principals
    )


def seconds_until_midnight(now: datetime) -> int:
    """Seconds until the next day begins, rounded up."""
    begins = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
    return int((begins - now).total_seconds()) + 1


def _add_usage(tx: Transaction, day: str, taken: Mapping[LimitKey, int]) -> dict[LimitKey, int]:
    oldest = (datetime.fromisoformat(day) - timedelta(days=RETENTION_DAYS)).date().isoformat()
    tx.execute("DELETE FROM quota_use WHERE day < ?", (oldest,))
    totals: dict[LimitKey, int] = {}
    for whose, count in sorted(taken.items()):  # in one order everywhere: two nodes never wait for each other
        row = tx.one(
            "INSERT INTO quota_use (tenant, whose, name, day, used) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (day, tenant, whose, name) DO UPDATE SET used = quota_use.used + excluded.used RETURNING used",
            (*whose, day, count),
        )
        totals[whose] = row["used"] if row else count
    return totals


def _read_usage(tx: Transaction, day: str) -> _Usage:
    rows = tx.all("SELECT tenant, whose, name, used FROM quota_use WHERE day = ?", (day,))
    return Counter({LimitKey(row["tenant"], row["whose"], row["name"]): row["used"] for row in rows})


def _quota_exceeded_error(whose: LimitKey, most: int, seconds: int) -> Busy:
    return Busy(
        f"{whose.describe_use(most)} today, and that is the limit",
        code="quota_exceeded",
        hint=f"the next day begins at midnight UTC; the limit is limits.daily_calls_per_{whose.scope}",
        details={"retry_after": seconds, "limit_per_day": most},
    )

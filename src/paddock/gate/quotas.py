"""How much in a day: so many calls for a tenant, for whoever calls, and of a plugin, until midnight UTC.

Unlike a rate, what was used is not forgotten when the host ends, and counts for all nodes of a store together. Calls
are counted in memory and written down each second: a host that is killed forgets what it counted since.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, time, timedelta
from typing import TypeAlias

import anyio

from paddock.core.clock import Clock
from paddock.core.errors import Busy, PaddockError
from paddock.gate.rates import NO_LIMIT, Rates, Whose
from paddock.plugins.supervision.owned_tasks import owned_tasks
from paddock.store.database import Database, Transaction

WRITE_EVERY = 1.0
KEEP_DAYS = 31

_Used: TypeAlias = Counter[Whose]


class Quotas:
    """What was used of this day, and what may be.

    Args:
        a_day: How many calls.
        clock: Tells the day.
    """

    def __init__(self, a_day: Rates, clock: Clock) -> None:
        self._a_day = a_day
        self.unlimited = a_day == NO_LIMIT
        self._clock = clock
        self._day = ""
        self._used: _Used = Counter()
        self._unwritten: _Used = Counter()

    def take(self, *wanted: Whose) -> None:
        """Count one call for each of them, or for none.

        Raises:
            Busy: one of them has had as many as it may today; `retry_after` of its details says for how long to wait.
        """
        if self.unlimited:
            return
        now = self._clock.now()
        self._begin(now)
        limited = [(whose, most) for whose in wanted if (most := self._a_day.of(whose)) is not None]
        for whose, most in limited:
            if self._used[whose] >= most:
                raise _used_up(whose, most, until_midnight(now))
        for whose, _ in limited:
            self._used[whose] += 1
            self._unwritten[whose] += 1

    async def keep(self, database: Database) -> None:
        """Write down what was used, and learn what others of the same store have used.

        Raises:
            PaddockError: it cannot be written now; it is kept for the next time.
        """
        day, taken = self._day, self._unwritten
        if not taken:
            return
        self._unwritten = Counter()
        try:
            totals = await database.write(lambda tx: _add(tx, day, taken))
        except PaddockError:
            if day == self._day:
                self._unwritten.update(taken)
            raise
        if day == self._day:
            for whose, used in totals.items():
                self._used[whose] = used + self._unwritten[whose]

    async def recall(self, database: Database) -> None:
        """Take up what was used today before this host was opened."""
        self._begin(self._clock.now())
        day = self._day
        self._used = await database.read(lambda tx: _read(tx, day))

    def _begin(self, now: datetime) -> None:
        day = now.date().isoformat()
        if day != self._day:
            self._day = day
            self._used, self._unwritten = Counter(), Counter()


@asynccontextmanager
async def open_quotas(a_day: Rates, database: Database, clock: Clock) -> AsyncGenerator[Quotas, None]:
    """The day's quotas, written down while the block runs and once more at its end."""
    quotas = Quotas(a_day, clock)
    if quotas.unlimited:
        yield quotas
        return
    await quotas.recall(database)

    async def keep_forever() -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY)
            # Not ended half-way: nobody would know then whether what was counted is written down.
            with suppress(PaddockError), anyio.CancelScope(shield=True):  # a store in trouble says so to every call
                await quotas.keep(database)

    async with owned_tasks() as tasks:
        tasks.start_soon(keep_forever)
        yield quotas
    with suppress(PaddockError):
        await quotas.keep(database)


def forget_use(tx: Transaction, tenant: str, principals: Collection[str]) -> int:
    """Drop what was counted for somebody; gives how many rows that were."""
    return sum(
        tx.execute("DELETE FROM quota_use WHERE tenant = ? AND whose = 'principal' AND name = ?", (tenant, principal))
        for principal in principals
    )


def until_midnight(now: datetime) -> int:
    """Seconds until the next day begins, rounded up."""
    begins = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
    return int((begins - now).total_seconds()) + 1


def _add(tx: Transaction, day: str, taken: Mapping[Whose, int]) -> dict[Whose, int]:
    oldest = (datetime.fromisoformat(day) - timedelta(days=KEEP_DAYS)).date().isoformat()
    tx.execute("DELETE FROM quota_use WHERE day < ?", (oldest,))
    totals: dict[Whose, int] = {}
    for whose, count in sorted(taken.items()):  # in one order everywhere: two nodes never wait for each other
        row = tx.one(
            "INSERT INTO quota_use (tenant, whose, name, day, used) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (day, tenant, whose, name) DO UPDATE SET used = quota_use.used + excluded.used RETURNING used",
            (*whose, day, count),
        )
        totals[whose] = row["used"] if row else count
    return totals


def _read(tx: Transaction, day: str) -> _Used:
    rows = tx.all("SELECT tenant, whose, name, used FROM quota_use WHERE day = ?", (day,))
    return Counter({Whose(row["tenant"], row["whose"], row["name"]): row["used"] for row in rows})


def _used_up(whose: Whose, most: int, seconds: int) -> Busy:
    return Busy(
        f"{whose.had(most)} today, and that is the limit",
        code="quota_exceeded",
        hint=f"the next day begins at midnight UTC; the limit is limits.daily_calls_per_{whose.whose}",
        details={"retry_after": seconds, "limit_per_day": most},
    )

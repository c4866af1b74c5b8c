"""Daily call quotas per tenant, principal and plugin, counted in memory and flushed to the store."""

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
from paddock.core.tasks import scoped_tasks
from paddock.gate.admission.call_limits import NO_LIMITS, CallLimits, LimitKey
from paddock.store.database import Database, Transaction

FLUSH_INTERVAL_S = 1.0
RETENTION_DAYS = 31

_Usage: TypeAlias = Counter[LimitKey]


class DailyQuotas:
    """Counts today's calls and enforces the daily limits.

    Args:
        per_day: The limits, in calls per day.
        clock: Tells the current day.
    """

    def __init__(self, per_day: CallLimits, clock: Clock) -> None:
        self._per_day = per_day
        self.unlimited = per_day == NO_LIMITS
        self._clock = clock
        self._day = ""
        self._used: _Usage = Counter()
        self._unwritten: _Usage = Counter()

    def take(self, *keys: LimitKey) -> None:
        """Count one call for every key, or for none of them.

        Raises:
            Busy: one key has reached its limit for today; `retry_after` in the details says how many seconds to wait.
        """
        if self.unlimited:
            return
        now = self._clock.now()
        self._roll_over(now)
        limited = [(key, limit) for key in keys if (limit := self._per_day.limit_for(key)) is not None]
        for key, limit in limited:
            if self._used[key] >= limit:
                raise _quota_exceeded_error(key, limit, seconds_until_midnight(now))
        for key, _ in limited:
            self._used[key] += 1
            self._unwritten[key] += 1

    async def flush(self, database: Database) -> None:
        """Write unsaved usage to the store and take over the totals, which include the usage of other nodes.

        Raises:
            PaddockError: the store cannot be written now; the usage is kept for the next flush.
        """
        day, unwritten = self._day, self._unwritten
        if not unwritten:
            return
        self._unwritten = Counter()
        try:
            totals = await database.write(lambda tx: _add_usage(tx, day, unwritten))
        except PaddockError:
            if day == self._day:
                self._unwritten.update(unwritten)
            raise
        if day == self._day:
            for key, used in totals.items():
                self._used[key] = used + self._unwritten[key]

    async def load(self, database: Database) -> None:
        """Load the usage of today from before this host was opened."""
        self._roll_over(self._clock.now())
        day = self._day
        self._used = await database.read(lambda tx: _read_usage(tx, day))

    def _roll_over(self, now: datetime) -> None:
        day = now.date().isoformat()
        if day != self._day:
            self._day = day
            self._used, self._unwritten = Counter(), Counter()


@asynccontextmanager
async def open_quotas(per_day: CallLimits, database: Database, clock: Clock) -> AsyncGenerator[DailyQuotas, None]:
    """Open the daily quotas; usage is flushed regularly while the block runs and once more at its end."""
    quotas = DailyQuotas(per_day, clock)
    if quotas.unlimited:
        yield quotas
        return
    await quotas.load(database)

    async def flush_forever() -> None:
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            # Shielded: after a cancelled write it would be unknown whether the usage was stored.
            with suppress(PaddockError), anyio.CancelScope(shield=True):  # a broken store reports itself to every call
                await quotas.flush(database)

    async with scoped_tasks() as tasks:
        tasks.start_soon(flush_forever)
        yield quotas
    with suppress(PaddockError):
        await quotas.flush(database)


def erase_usage(tx: Transaction, tenant: str, principals: Collection[str]) -> int:
    """Delete the usage of these principals and return the number of deleted rows."""
    return sum(
        tx.execute("DELETE FROM quota_use WHERE tenant = ? AND whose = 'principal' AND name = ?", (tenant, principal))
        for principal in principals
    )


def seconds_until_midnight(now: datetime) -> int:
    """Return the seconds until the next day begins, rounded up."""
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
    return int((midnight - now).total_seconds()) + 1


def _add_usage(tx: Transaction, day: str, usage: Mapping[LimitKey, int]) -> dict[LimitKey, int]:
    oldest = (datetime.fromisoformat(day) - timedelta(days=RETENTION_DAYS)).date().isoformat()
    tx.execute("DELETE FROM quota_use WHERE day < ?", (oldest,))
    totals: dict[LimitKey, int] = {}
    for key, count in sorted(usage.items()):  # the same order on every node, so that two nodes cannot deadlock
        row = tx.one(
            "INSERT INTO quota_use (tenant, whose, name, day, used) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (day, tenant, whose, name) DO UPDATE SET used = quota_use.used + excluded.used RETURNING used",
            (*key, day, count),
        )
        totals[key] = row["used"] if row else count
    return totals


def _read_usage(tx: Transaction, day: str) -> _Usage:
    rows = tx.all("SELECT tenant, whose, name, used FROM quota_use WHERE day = ?", (day,))
    return Counter({LimitKey(row["tenant"], row["whose"], row["name"]): row["used"] for row in rows})


def _quota_exceeded_error(key: LimitKey, limit: int, seconds: int) -> Busy:
    return Busy(
        f"{key.describe_use(limit)} today, and that is the limit",
        code="quota_exceeded",
        hint=f"the next day begins at midnight UTC; the limit is limits.daily_calls_per_{key.scope}",
        details={"retry_after": seconds, "limit_per_day": limit},
    )

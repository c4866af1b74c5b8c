"""The ledger of a running host, for whoever looks at it: pages, one story, and new entries as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime

from paddock.core.errors import NotFound, OperatorError, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.ledger.entry import Entry
from paddock.ledger.feed import MOST, Wanted, course_of, kinds_of, last_seq, names_in, page, told_of
from paddock.ledger.spot_check import altered
from paddock.ledger.writer import LedgerWriter
from paddock.store.database import Database, Transaction

EVERY = 1.0  # seconds between two looks where nothing was written here: other processes write into it too
APART = 0.25  # seconds at least
SUGGESTED = 100


class LedgerReading:
    """Reads what was recorded.

    Args:
        database: Where it is kept.
        ledger: Has to be on disk before it is read.
    """

    def __init__(self, database: Database, ledger: LedgerWriter) -> None:
        self._database = database
        self._ledger = ledger

    async def page(
        self, tenant: Tenant, wanted: Wanted, *, before: int | None = None, after: int | None = None, limit: int = 50
    ) -> list[Entry]:
        """Some entries of a tenant, newest first: the last ones, those right before a number, or right after one."""
        await self._on_disk()
        oldest = after is not None
        found = await self._database.read(
            lambda tx: page(tx, tenant, wanted, before=before, after=after, newest_first=not oldest, limit=limit)
        )
        return found[::-1] if oldest else found

    async def end(self, tenant: Tenant) -> int:
        """The number of a tenant's last entry: what tells whether anything happened since."""
        return await self._database.read(lambda tx: last_seq(tx, tenant))

    async def kinds(self, tenant: Tenant) -> list[str]:
        """The types of entries that a tenant has."""
        return await self._database.read(lambda tx: kinds_of(tx, tenant))

    async def names(self, tenant: Tenant) -> dict[str, list[str]]:
        """Some of those whom a tenant's entries are about, by `plugin` and `principal`: to choose from."""
        return await self._database.read(
            lambda tx: {
                "plugin": names_in(tx, "plugin", tenant, SUGGESTED),
                "principal": names_in(tx, "principal", tenant, SUGGESTED),
            }
        )

    async def everything(self, tenant: Tenant, wanted: Wanted) -> AsyncGenerator[list[Entry], None]:
        """All entries that there are now, oldest first, a page at a time: however many, only one page is held."""
        await self._on_disk()
        end = await self.end(tenant) + 1
        after = 0
        while True:
            entries = await self._database.read(
                lambda tx, seq=after: page(tx, tenant, wanted, after=seq, before=end, newest_first=False, limit=MOST)
            )
            if entries:
                yield entries
            if len(entries) < MOST:
                return
            after = entries[-1].seq

    async def course(self, tenant: Tenant, name: str) -> tuple[list[Entry], list[Entry]]:
        """As `told_of`; of a call also what happened in its request outside any call."""
        await self._on_disk()

        def unit(tx: Transaction) -> tuple[list[Entry], list[Entry]]:
            found = course_of(tx, name, tenant)
            return found, altered(tx, found)

        found, forged = await self._database.read(unit)
        if not found:
            raise nothing_of(name)
        return found, forged

    async def told_of(self, tenant: Tenant, name: str) -> tuple[list[Entry], list[Entry]]:
        """The entry with this id, or all of the call or request with this id; and which of them were altered.

        Raises:
            NotFound: nothing was recorded of it.
        """
        await self._on_disk()
        found, forged = await self._database.read(
            lambda tx: (entries := told_of(tx, name, tenant), altered(tx, entries))
        )
        if not found:
            raise nothing_of(name)
        return found, forged

    async def latest(self, tenant: Tenant, wanted: Wanted, limit: int) -> AsyncGenerator[list[Entry], None]:
        """The last entries, newest first: as they are now, and again whenever others are."""
        shown: int | None = None
        while True:
            entries = await self._database.read(lambda tx: page(tx, tenant, wanted, limit=limit))
            newest = entries[0].seq if entries else 0
            if newest != shown:
                shown = newest
                yield entries
            await self._news()

    async def follow(self, tenant: Tenant, wanted: Wanted, after: int | None) -> AsyncGenerator[Entry, None]:
        """Entries as they come, from now on or after the one of this number."""
        if after is None:
            after = await self.end(tenant)
        while True:
            end, entries = await self._database.read(
                lambda tx, seq=after: (
                    last_seq(tx, tenant),
                    page(tx, tenant, wanted, after=seq, newest_first=False, limit=MOST),
                )
            )
            for entry in entries:
                yield entry
            if len(entries) == MOST:
                after = entries[-1].seq
                continue
            after = max(after, end)
            await self._news()

    async def _on_disk(self) -> None:
        """What was answered just now is found by whoever looks. That nothing more can be written, on a full disk for
        instance, is no reason to hide what was; the condition of the host tells of it."""
        with suppress(PaddockError):
            await self._ledger.flushed()

    async def _news(self) -> None:
        """Wait a moment, and then until something more may be there."""
        await asyncio.sleep(APART)
        with suppress(TimeoutError):
            async with asyncio.timeout(EVERY):
                await self._ledger.landed()


def nothing_of(name: str) -> NotFound:
    """What to say of an id that nothing was recorded under."""
    return NotFound(
        f"the ledger has nothing of {printable(name, 100)}",
        code="ledger.unknown",
        hint="look with: paddock ledger tail",
    )


def moment(text: str | None) -> str | None:
    """A time as it stands in the ledger, in UTC; one without a zone is in UTC already.

    Raises:
        OperatorError: it is no time.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise OperatorError(
            f"{printable(text, 60)} is no time", code="ledger.time", hint="write it as 2030-01-31T08:00"
        ) from None

"""The ledger of a running host, for whoever looks at it: pages, one story, and new entries as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime

from paddock.core.errors import NotFound, OperatorError, PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.ledger.chain.verify import find_altered
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import (
    MAX_PAGE_ENTRIES,
    EntryFilter,
    call_history,
    find_entries,
    last_seq,
    list_entries,
    list_names,
    list_types,
)
from paddock.ledger.write.writer import LedgerWriter
from paddock.store.database import Database, Transaction

POLL_INTERVAL_S = 1.0  # seconds between two looks where nothing was written here: other processes write into it too
MIN_POLL_GAP_S = 0.25  # seconds at least
MAX_SUGGESTIONS = 100


class LedgerReader:
    """Reads what was recorded.

    Args:
        database: Where it is kept.
        ledger: Has to be on disk before it is read.
    """

    def __init__(self, database: Database, ledger: LedgerWriter) -> None:
        self._database = database
        self._ledger = ledger

    async def page(
        self,
        tenant: Tenant,
        wanted: EntryFilter,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> list[LedgerEntry]:
        """Some entries of a tenant, newest first: the last ones, those right before a number, or right after one."""
        await self._flush()
        oldest = after is not None
        found = await self._database.read(
            lambda tx: list_entries(
                tx, tenant, wanted, before=before, after=after, newest_first=not oldest, limit=limit
            )
        )
        return found[::-1] if oldest else found

    async def end_seq(self, tenant: Tenant) -> int:
        """The number of a tenant's last entry: what tells whether anything happened since."""
        return await self._database.read(lambda tx: last_seq(tx, tenant))

    async def entry_types(self, tenant: Tenant) -> list[str]:
        """The types of entries that a tenant has."""
        return await self._database.read(lambda tx: list_types(tx, tenant))

    async def suggest_names(self, tenant: Tenant) -> dict[str, list[str]]:
        """Some of those whom a tenant's entries are about, by `plugin` and `principal`: to choose from."""
        return await self._database.read(
            lambda tx: {
                "plugin": list_names(tx, "plugin", tenant, MAX_SUGGESTIONS),
                "principal": list_names(tx, "principal", tenant, MAX_SUGGESTIONS),
            }
        )

    async def export_pages(self, tenant: Tenant, wanted: EntryFilter) -> AsyncGenerator[list[LedgerEntry], None]:
        """All entries that there are now, oldest first, a page at a time: however many, only one page is held."""
        await self._flush()
        end = await self.end_seq(tenant) + 1
        after = 0
        while True:
            entries = await self._database.read(
                lambda tx, seq=after: list_entries(
                    tx, tenant, wanted, after=seq, before=end, newest_first=False, limit=MAX_PAGE_ENTRIES
                )
            )
            if entries:
                yield entries
            if len(entries) < MAX_PAGE_ENTRIES:
                return
            after = entries[-1].seq

    async def entries_of_call(self, tenant: Tenant, name: str) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """As `told_of`; of a call also what happened in its request outside any call."""
        await self._flush()

        def unit(tx: Transaction) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
            found = call_history(tx, name, tenant)
            return found, find_altered(tx, found)

        found, forged = await self._database.read(unit)
        if not found:
            raise no_entries_error(name)
        return found, forged

    async def entries_by_id(self, tenant: Tenant, name: str) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """The entry with this id, or all of the call or request with this id; and which of them were altered.

        Raises:
            NotFound: nothing was recorded of it.
        """
        await self._flush()
        found, forged = await self._database.read(
            lambda tx: (entries := find_entries(tx, name, tenant), find_altered(tx, entries))
        )
        if not found:
            raise no_entries_error(name)
        return found, forged

    async def watch_latest(
        self, tenant: Tenant, wanted: EntryFilter, limit: int
    ) -> AsyncGenerator[list[LedgerEntry], None]:
        """The last entries, newest first: as they are now, and again whenever others are."""
        shown: int | None = None
        while True:
            entries = await self._database.read(lambda tx: list_entries(tx, tenant, wanted, limit=limit))
            newest = entries[0].seq if entries else 0
            if newest != shown:
                shown = newest
                yield entries
            await self._wait_for_entries()

    async def follow(self, tenant: Tenant, wanted: EntryFilter, after: int | None) -> AsyncGenerator[LedgerEntry, None]:
        """Entries as they come, from now on or after the one of this number."""
        if after is None:
            after = await self.end_seq(tenant)
        while True:
            end, entries = await self._database.read(
                lambda tx, seq=after: (
                    last_seq(tx, tenant),
                    list_entries(tx, tenant, wanted, after=seq, newest_first=False, limit=MAX_PAGE_ENTRIES),
                )
            )
            for entry in entries:
                yield entry
            if len(entries) == MAX_PAGE_ENTRIES:
                after = entries[-1].seq
                continue
            after = max(after, end)
            await self._wait_for_entries()

    async def _flush(self) -> None:
        """What was answered just now is found by whoever looks. That nothing more can be written, on a full disk for
        instance, is no reason to hide what was; the condition of the host tells of it."""
        with suppress(PaddockError):
            await self._ledger.flush()

    async def _wait_for_entries(self) -> None:
        """Wait a moment, and then until something more may be there."""
        await asyncio.sleep(MIN_POLL_GAP_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._ledger.wait_for_write()


def no_entries_error(name: str) -> NotFound:
    """What to say of an id that nothing was recorded under."""
    return NotFound(
        f"the ledger has nothing of {printable(name, 100)}",
        code="ledger.unknown",
        hint="look with: paddock ledger tail",
    )


def parse_ledger_time(text: str | None) -> str | None:
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

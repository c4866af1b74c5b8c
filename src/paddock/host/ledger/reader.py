"""Reads the ledger of a running host: pages, the entries of one call, exports, and live tails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from paddock.core.action import Action
from paddock.core.errors import NotFound, OperatorError, PaddockError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.printable import printable
from paddock.ledger.chain.checkpoint import tenants_with_checkpoints
from paddock.ledger.chain.verify import find_altered
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import (
    MAX_PAGE_ENTRIES,
    EntryFilter,
    call_history,
    find_entries,
    has_chain,
    last_seq,
    list_entries,
    list_names,
    list_types,
)
from paddock.ledger.write.writer import LedgerWriter
from paddock.principals.tenants import unknown_tenant_error
from paddock.store.database import Database, Transaction

POLL_INTERVAL_S = 1.0  # other processes write to the ledger too, without waking us
MIN_POLL_GAP_S = 0.25
MAX_SUGGESTIONS = 100


class LedgerReader:
    """Reads ledger entries.

    Args:
        database: Holds the ledger.
        ledger: Flushed before each read.
        state: The directory of checkpoints.
    """

    def __init__(self, database: Database, ledger: LedgerWriter, state: Path) -> None:
        self._database = database
        self._ledger = ledger
        self._state = state

    async def chain_tenant(self, name: str) -> Tenant:
        """Return the tenant of a chain; it is found even if the tenant is missing from the store.

        Raises:
            NotFound: there is neither such a tenant nor such a chain.
        """
        if (
            name != DEFAULT_TENANT
            and not await self._database.read(lambda tx: has_chain(tx, name))
            and name not in await asyncio.to_thread(tenants_with_checkpoints, self._state)
        ):
            raise unknown_tenant_error(name)
        return Tenant(name)

    async def page(
        self,
        tenant: Tenant,
        entry_filter: EntryFilter,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> list[LedgerEntry]:
        """Return a page of a tenant's entries, newest first: the latest, or those before or after a sequence number."""
        await self.flush()
        oldest = after is not None
        entries = await self._database.read(
            lambda tx: list_entries(
                tx, tenant, entry_filter, before=before, after=after, newest_first=not oldest, limit=limit
            )
        )
        return entries[::-1] if oldest else entries

    async def page_to_follow(
        self, tenant: Tenant, entry_filter: EntryFilter, *, before: int | None, limit: int
    ) -> tuple[list[LedgerEntry], int]:
        """Return a page as `page` does, and the sequence number after which later entries are found."""
        await self.flush()
        return await self._database.read(
            lambda tx: (list_entries(tx, tenant, entry_filter, before=before, limit=limit), last_seq(tx, tenant))
        )

    async def end_seq(self, tenant: Tenant) -> int:
        """Return the sequence number of a tenant's last entry; it tells whether anything was added since."""
        return await self._database.read(lambda tx: last_seq(tx, tenant))

    async def entry_types(self, tenant: Tenant) -> list[str]:
        """Return the types of entries that a tenant has."""
        return await self._database.read(lambda tx: list_types(tx, tenant))

    async def suggest_names(self, tenant: Tenant) -> dict[str, list[str]]:
        """Return some names in a tenant's entries, by `plugin` and `principal`, as suggestions for filters."""
        return await self._database.read(
            lambda tx: {
                "plugin": list_names(tx, "plugin", tenant, MAX_SUGGESTIONS),
                "principal": list_names(tx, "principal", tenant, MAX_SUGGESTIONS),
            }
        )

    async def export_pages(self, tenant: Tenant, entry_filter: EntryFilter) -> AsyncGenerator[list[LedgerEntry], None]:
        """Yield all current entries, oldest first, page by page: only one page is in memory."""
        await self.flush()
        end = await self.end_seq(tenant) + 1
        after = 0
        while True:
            entries = await self._database.read(
                lambda tx, seq=after: list_entries(
                    tx, tenant, entry_filter, after=seq, before=end, newest_first=False, limit=MAX_PAGE_ENTRIES
                )
            )
            if entries:
                yield entries
            if len(entries) < MAX_PAGE_ENTRIES:
                return
            after = entries[-1].seq

    async def entries_of_call(self, tenant: Tenant, call_id: str) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """Return the entries of a call as `entries_by_id`, with entries of its request that belong to no call."""
        await self.flush()

        def query(tx: Transaction) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
            entries = call_history(tx, call_id, tenant)
            return entries, find_altered(tx, entries)

        entries, altered = await self._database.read(query)
        if not entries:
            raise no_entries_error(call_id)
        return entries, altered

    async def entries_by_id(self, tenant: Tenant, entry_id: str) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
        """Return the entry with this id, or all of the call or request with this id; and those that were altered.

        Raises:
            NotFound: nothing was recorded under it.
        """
        await self.flush()
        entries, altered = await self._database.read(
            lambda tx: (entries := find_entries(tx, entry_id, tenant), find_altered(tx, entries))
        )
        if not entries:
            raise no_entries_error(entry_id)
        return entries, altered

    async def watch_latest(
        self, tenant: Tenant, entry_filter: EntryFilter, limit: int
    ) -> AsyncGenerator[list[LedgerEntry], None]:
        """Yield the latest entries, newest first: now, and again whenever there are new ones."""
        last_seen: int | None = None
        while True:
            entries = await self._database.read(lambda tx: list_entries(tx, tenant, entry_filter, limit=limit))
            newest = entries[0].seq if entries else 0
            if newest != last_seen:
                last_seen = newest
                yield entries
            await self._wait_for_entries()

    async def follow(
        self, tenant: Tenant, entry_filter: EntryFilter, after: int | None
    ) -> AsyncGenerator[LedgerEntry, None]:
        """Yield entries as they are written, from now on or after a sequence number."""
        if after is None:
            after = await self.end_seq(tenant)
        while True:
            end, entries = await self._database.read(
                lambda tx, seq=after: (
                    last_seq(tx, tenant),
                    list_entries(tx, tenant, entry_filter, after=seq, newest_first=False, limit=MAX_PAGE_ENTRIES),
                )
            )
            for entry in entries:
                yield entry
            if len(entries) == MAX_PAGE_ENTRIES:
                after = entries[-1].seq
                continue
            after = max(after, end)
            await self._wait_for_entries()

    async def flush(self) -> None:
        """Flush the ledger, so that readers find what was just recorded.

        If that fails, on a full disk for instance, what is recorded can still be read; the host's health reports it.
        """
        with suppress(PaddockError):
            await self._ledger.flush()

    async def _wait_for_entries(self) -> None:
        """Wait a moment, and then until there may be new entries."""
        await asyncio.sleep(MIN_POLL_GAP_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._ledger.wait_for_write()


def no_entries_error(identifier: str) -> NotFound:
    """Build the error for an id without entries."""
    return NotFound(
        f"the ledger has no entry of {printable(identifier, 100)}",
        code="ledger.unknown",
        action=Action.of("ledger.tail"),
    )


def parse_ledger_time(text: str | None) -> str | None:
    """Parse a time to the ledger's format, in UTC; a time without zone is taken as UTC.

    Raises:
        OperatorError: it is not a time.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise OperatorError(
            f"{printable(text, 60)} is no time", code="ledger.time", hint="write it as 2030-01-31T08:00"
        ) from None

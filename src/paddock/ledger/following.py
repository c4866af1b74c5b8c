"""Following the ledger live: told by the writer of this process, and looking by itself for what others write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.entry import Entry
from paddock.ledger.feed import ALL, MOST, Wanted, last_seq, page
from paddock.ledger.writer import LedgerWriter
from paddock.store.database import Database, Transaction

SHORTEST_PAUSE = 0.25  # between two looks: thousands of entries a second come in a few pages


async def follow(
    database: Database,
    writer: LedgerWriter,
    tenant: str = DEFAULT_TENANT,
    wanted: Wanted = ALL,
    *,
    after: int | None = None,
    look_every: float = 1.0,
) -> AsyncGenerator[Entry, None]:
    """Entries as they come, oldest first, from behind a number on; from now on where none is given.

    What this process writes is seen within a quarter of a second, what others write after `look_every`.
    """
    seq = await database.read(lambda tx: last_seq(tx, tenant)) if after is None else after
    while True:
        written = writer.rows
        end, entries = await database.read(lambda tx, seq=seq: (last_seq(tx, tenant), _next(tx, tenant, wanted, seq)))
        for entry in entries:
            yield entry
        if len(entries) == MOST:
            seq = entries[-1].seq
            continue
        seq = end
        await asyncio.sleep(SHORTEST_PAUSE)
        if writer.rows != written:
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(look_every):
                await writer.landed()


def _next(tx: Transaction, tenant: str, wanted: Wanted, after: int) -> list[Entry]:
    return page(tx, tenant, wanted, after=after, newest_first=False, limit=MOST)

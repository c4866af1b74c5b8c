"""Finds the rows between two times, without an index over all rows.

Rows are nearly in the order of their times, and a table notes the earliest and the latest time of each block. That
holds whatever the clock did: one that was set back makes several ranges.
"""

from __future__ import annotations

from typing import NamedTuple

from paddock.ledger.stored_row import BLOCK_ROWS
from paddock.store.database import Transaction

_LAST_SEQ = 2**62


class SeqRange(NamedTuple):
    """Rows between two numbers, both included."""

    first: int
    last: int


ALL_ROWS = SeqRange(1, _LAST_SEQ)  # a chain starts at row 1; rows before it can only be forged


def find_time_ranges(tx: Transaction, chain: int, since: str | None, until: str | None) -> list[SeqRange]:
    """Return the ranges outside of which no row is from `since` on and before `until`, in ascending order."""
    if since is None and until is None:
        return [ALL_ROWS]
    conditions, values = "", list[str]()
    if since is not None:
        conditions += " AND last_at >= ?"
        values.append(since)
    if until is not None:
        conditions += " AND first_at < ?"
        values.append(until)
    found = tx.one(
        "SELECT min(block) AS first, max(block) AS last, count(*) AS blocks FROM ledger_times WHERE chain = ?"  # noqa: S608
        + conditions,
        (chain, *values),
    )
    if found is None or not found["blocks"]:
        return []
    first, last = found["first"], found["last"]
    if found["blocks"] == last - first + 1:
        return [_rows_of(first, last)]
    rows = tx.all(
        f"SELECT block FROM ledger_times WHERE chain = ?{conditions} ORDER BY block",  # noqa: S608
        (chain, *values),
    )
    blocks = [row["block"] for row in rows]
    begins = [block for before, block in zip([None, *blocks], blocks, strict=False) if before != block - 1]
    ends = [block for block, after in zip(blocks, [*blocks[1:], None], strict=True) if after != block + 1]
    return [_rows_of(begin, end) for begin, end in zip(begins, ends, strict=True)]


def read_noted_times(tx: Transaction, chain: int) -> dict[int, tuple[str, str]]:
    """Return the earliest and the latest time noted for each block of rows."""
    rows = tx.tuples("SELECT block, first_at, last_at FROM ledger_times WHERE chain = ?", (chain,))
    return {block: (first_at, last_at) for block, first_at, last_at in rows}


def _rows_of(first_block: int, last_block: int) -> SeqRange:
    return SeqRange(max(1, first_block * BLOCK_ROWS), (last_block + 1) * BLOCK_ROWS - 1)

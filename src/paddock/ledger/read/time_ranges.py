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
    certain: bool = True
    """Whether all of them are between the two times; otherwise the time of each decides."""


ALL_ROWS = SeqRange(1, _LAST_SEQ)  # a chain starts at row 1; rows before it can only be forged


def find_time_ranges(tx: Transaction, chain: int, since: str | None, until: str | None) -> list[SeqRange]:
    """Return the ranges outside of which no row is from `since` on and before `until`, in ascending order."""
    if since is None and until is None:
        return [ALL_ROWS]
    some, whole, times = "", list[str](), list[str]()
    for column, other, operator, time in (("last_at", "first_at", ">=", since), ("first_at", "last_at", "<", until)):
        if time is not None:
            some += f" AND {column} {operator} ?"
            whole.append(f"{other} {operator} ?")
            times.append(time)
    # `whole` is the number of a block of which every row is between the times.
    blocks = (
        f"(SELECT block, CASE WHEN {' AND '.join(whole)} THEN block END AS whole FROM ledger_times "  # noqa: S608
        f"WHERE chain = ?{some}) AS blocks"
    )
    values = (*times, chain, *times)
    found = tx.one(
        "SELECT min(block) AS first, max(block) AS last, count(*) AS blocks, min(whole) AS first_whole, "  # noqa: S608
        f"max(whole) AS last_whole, count(whole) AS whole_blocks FROM {blocks}",
        values,
    )
    if found is None or not found["blocks"]:
        return []
    first, last, first_whole, last_whole = (found[name] for name in ("first", "last", "first_whole", "last_whole"))
    if found["blocks"] == last - first + 1 and (
        first_whole is None or found["whole_blocks"] == last_whole - first_whole + 1
    ):
        if first_whole is None:
            return [_rows_of(first, last, certain=False)]
        ranges = [
            _rows_of(first, first_whole - 1, certain=False),
            _rows_of(first_whole, last_whole, certain=True),
            _rows_of(last_whole + 1, last, certain=False),
        ]
        return [one for one in ranges if one.first <= one.last]
    rows = tx.tuples(f"SELECT block, whole FROM {blocks} ORDER BY block", values)  # noqa: S608
    ranges = list[SeqRange]()
    for block, whole_block in rows:
        one = _rows_of(block, block, certain=whole_block is not None)
        if ranges and ranges[-1].last + 1 == one.first and ranges[-1].certain == one.certain:
            one = one._replace(first=ranges.pop().first)
        ranges.append(one)
    return ranges


def read_noted_times(tx: Transaction, chain: int) -> dict[int, tuple[str, str]]:
    """Return the earliest and the latest time noted for each block of rows."""
    rows = tx.tuples("SELECT block, first_at, last_at FROM ledger_times WHERE chain = ?", (chain,))
    return {block: (first_at, last_at) for block, first_at, last_at in rows}


def _rows_of(first_block: int, last_block: int, *, certain: bool) -> SeqRange:
    return SeqRange(max(1, first_block * BLOCK_ROWS), (last_block + 1) * BLOCK_ROWS - 1, certain)

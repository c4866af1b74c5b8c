"""Finds rows of a chain by kind, plugin, principal, call, request and time, in either order, each by an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import orjson
from msgspec import Struct

from paddock.core.events.calls import CallEnded
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.rows import ChainRows, find_chain, read_kinds
from paddock.ledger.read.time_ranges import SeqRange, find_time_ranges
from paddock.store.database import Transaction

KindCondition = Callable[[str, dict[str, Any]], bool]
"""Whether entries of a type, with the facts by which they are listed, are wanted."""

_MAX_COUNTED_ROWS: Final = 20_000  # of each value; counting so many in an index takes a millisecond
_ROWS_PER_LOOKUP: Final = 50


class RowFilter(Struct, frozen=True):
    """Which rows to find; fields left out do not filter. Times are ISO-8601 in UTC, `until` is exclusive."""

    kind: KindCondition | None = None
    plugin: str | None = None
    principals: tuple[str, ...] | None = None
    call: str | None = None
    request: str | None = None
    since: str | None = None
    until: str | None = None


ENDED_CALLS: Final = RowFilter(kind=lambda kind, _: kind == CallEnded.type)


class _Column(NamedTuple):
    """An indexed column, and the values to find there: any of them."""

    name: str
    values: Sequence[int | str]

    @property
    def index_name(self) -> str:
        return f"ledger_by_{self.name}"

    @property
    def condition(self) -> str:
        """The condition on a row that another index found, to be looked up in this index and not in the row.

        Rows are found in their order, so these look-ups go through the index step by step, while the rows themselves
        are far apart.
        """
        marks = ", ".join("?" * len(self.values))
        return (
            f"EXISTS (SELECT 1 FROM ledger AS other INDEXED BY {self.index_name} WHERE other.chain = ledger.chain "  # noqa: S608
            f"AND other.{self.name} IN ({marks}) AND other.seq = ledger.seq)"
        )


def find_rows(
    tx: Transaction,
    tenant: str,
    wanted: RowFilter,
    *,
    after: int | None = None,
    before: int | None = None,
    newest_first: bool = True,
    limit: int,
) -> list[SealedEntry]:
    """Return the first rows that match, between two numbers if given. They are to be shown and not to be hashed."""
    chain = find_chain(tx, tenant)
    if chain is None:
        return []
    columns: list[_Column] = []
    if wanted.principals is not None:
        columns.append(_Column("principal", wanted.principals))
    if wanted.plugin is not None:
        columns.append(_Column("plugin", (wanted.plugin,)))
    if wanted.kind is not None:
        columns.append(_Column("kind", find_kinds(tx, chain, wanted.kind)))
    if not all(column.values for column in columns):
        return []
    search = _Search(ChainRows(tenant, chain), wanted, columns, newest_first)
    found: list[SealedEntry] = []
    ranges = find_time_ranges(tx, chain, wanted.since, wanted.until)
    for rows in reversed(ranges) if newest_first else ranges:
        clipped = rows._replace(
            first=rows.first if after is None else max(rows.first, after + 1),
            last=rows.last if before is None else min(rows.last, before - 1),
        )
        if clipped.first <= clipped.last and len(found) < limit:
            found += search.run(tx, clipped, limit - len(found))
    return found


def find_kinds(tx: Transaction, chain: int, condition: KindCondition) -> tuple[int, ...]:
    """Return the numbers of the kinds that meet a condition."""
    return tuple(
        number for number, kind in read_kinds(tx, chain).items() if condition(kind.type, _parse_listed(kind.facts))
    )


@lru_cache(maxsize=1024)
def _parse_listed(facts: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(facts)
    except ValueError:
        return {}  # changed by somebody; verification says so
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


class _Search(Struct, frozen=True):
    rows: ChainRows
    wanted: RowFilter
    columns: Sequence[_Column]
    newest_first: bool

    def run(self, tx: Transaction, within: SeqRange, limit: int) -> list[SealedEntry]:
        """Return the first rows within a range."""
        by_call = self.wanted.call is not None or self.wanted.request is not None
        # `seq + 0` keeps SQLite from walking through the chain where another index finds the few rows of a call.
        number, values = "seq + 0" if by_call else "seq", list[Any](within[:2])
        conditions = [f"{number} >= ?", f"{number} <= ?"]
        for name, operator, value in (("at", ">=", self.wanted.since), ("at", "<", self.wanted.until)):
            if value is not None and not within.certain:
                conditions.append(f"{name} {operator} ?")
                values.append(value)
        for name, value in (("call", self.wanted.call), ("request", self.wanted.request)):
            if value is not None:
                conditions.append(
                    f"{name} = ? AND seq IN (SELECT seq FROM ledger AS same WHERE same.{name} = ? AND same.chain = ?)"  # noqa: S608
                )
                values += (value, value, self.rows.chain)
        driver = None if by_call else self._choose_driver(tx, within)
        for column in self.columns:
            if column is not driver:
                conditions.append(column.condition)
                values += column.values
        if driver is None:
            return self._select(tx, " AND ".join(conditions), values, limit)
        if len(driver.values) == 1:
            condition = " AND ".join([f"{driver.name} = ?", *conditions])
            return self._select(tx, condition, (*driver.values, *values), limit, driver.index_name)
        # One query for each value: the index yields each in order, while one query for all would sort every row.
        query = (
            f"SELECT seq FROM ledger INDEXED BY {driver.index_name} WHERE chain = ? AND {driver.name} = ? "  # noqa: S608
            f"AND {' AND '.join(conditions)} ORDER BY seq {self._order} LIMIT ?"
        )
        numbers = {
            row["seq"] for value in driver.values for row in tx.all(query, (self.rows.chain, value, *values, limit))
        }
        return self._read(tx, sorted(numbers, reverse=self.newest_first)[:limit])

    @property
    def _order(self) -> str:
        return "DESC" if self.newest_first else "ASC"

    def _select(
        self, tx: Transaction, condition: str, values: Sequence[Any], limit: int, index: str = ""
    ) -> list[SealedEntry]:
        query = f"{condition} ORDER BY seq {self._order} LIMIT ?"
        return self.rows.select(tx, query, (*values, limit), index=index, sealed=False)

    def _read(self, tx: Transaction, numbers: Sequence[int]) -> list[SealedEntry]:
        """Return these rows, in this order."""
        found: dict[int, SealedEntry] = {}
        for begin in range(0, len(numbers), _ROWS_PER_LOOKUP):
            some = numbers[begin : begin + _ROWS_PER_LOOKUP]
            padded = [*some, *[some[-1]] * (_ROWS_PER_LOOKUP - len(some))]  # one statement for any number of rows
            rows = self.rows.select(tx, f"seq IN ({', '.join('?' * _ROWS_PER_LOOKUP)})", padded, sealed=False)
            found |= {row.seq: row for row in rows}
        return [found[number] for number in numbers]

    def _choose_driver(self, tx: Transaction, within: SeqRange) -> _Column | None:
        """Return the column whose index finds the rows: the one with the fewest."""
        if len(self.columns) < 2:
            return self.columns[0] if self.columns else None
        return min(self.columns, key=lambda column: self._estimate_rows(tx, column, within))

    def _estimate_rows(self, tx: Transaction, column: _Column, within: SeqRange) -> float:
        """Estimate how many rows have one of a column's values: counted up to a number, and from there by density."""
        query = (
            f"SELECT count(*) AS n, min(seq) AS first, max(seq) AS last FROM (SELECT seq FROM ledger "  # noqa: S608
            f"INDEXED BY {column.index_name} WHERE chain = ? AND {column.name} = ? AND seq >= ? AND seq <= ? "
            f"ORDER BY seq {self._order} LIMIT ?) AS found"
        )
        rows, density = 0, 0.0
        for value in column.values:
            found = tx.one(query, (self.rows.chain, value, within.first, within.last, _MAX_COUNTED_ROWS))
            count = found["n"] if found else 0
            if found is not None and count == _MAX_COUNTED_ROWS:
                density += count / (found["last"] - found["first"] + 1)
            rows += count
        if density:
            end = tx.one(
                "SELECT max(seq) AS seq FROM ledger WHERE chain = ? AND seq <= ?", (self.rows.chain, within.last)
            )
            length = ((end["seq"] if end else None) or within.first) - within.first + 1
            return max(rows, density * length)
        return rows

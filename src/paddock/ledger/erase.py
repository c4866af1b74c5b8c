"""Erasing what the ledger says of a person. The chain stays whole: it holds commitments, whose salts go too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from paddock.core.canonical import canonical_bytes
from paddock.core.clock import Clock, Random
from paddock.core.errors import NotFound
from paddock.core.events_ledger import LedgerErased
from paddock.ledger.append import LedgerTable
from paddock.store.database import Transaction

_RANGES_OF_ONE = 1_000  # of rows that one entry tells of


def erase(
    tx: Transaction, tenant: str, principal: str, *, by: str, explanation: str, clock: Clock, random: Random
) -> int:
    """Erase whatever one tenant's entries say of a person, record that, and give how many entries it was.

    Every entry that names them goes, whoever acted. The rows are told by number, so that a row which somebody emptied
    by hand can be told from one that was erased.

    Raises:
        NotFound: no entry tells of them.
    """
    ranges = joined(_naming(tx, tenant, principal))
    if not ranges:
        raise NotFound(
            "no entry of the ledger tells of them",
            code="ledger.nobody",
            hint="give the whole id, such as user:ann; see: paddock ledger tail",
            details={"tenant": tenant},
        )
    for first, last in ranges:
        tx.execute(
            "UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL WHERE tenant = ? AND seq BETWEEN ? AND ?",
            (tenant, first, last),
        )
    table = LedgerTable(tx, clock, random, tenant)
    for begin in range(0, len(ranges), _RANGES_OF_ONE):
        rows = tuple(ranges[begin : begin + _RANGES_OF_ONE])
        table.publish(LedgerErased(entries=_count(rows), rows=rows, principal=by, explanation=explanation))
    return _count(ranges)


def _naming(tx: Transaction, tenant: str, principal: str) -> list[int]:
    """The rows in which a personal field is this principal."""
    written = canonical_bytes(principal).decode()
    pattern = "".join(f"\\{character}" if character in "\\%_" else character for character in written)
    found = tx.all(
        "SELECT seq, personal FROM ledger WHERE tenant = ? AND personal LIKE ? ESCAPE ? ORDER BY seq",
        (tenant, f"%{pattern}%", "\\"),
    )
    return [row["seq"] for row in found if _names(json.loads(row["personal"]), principal)]


def _names(personal: dict[str, Any], principal: str) -> bool:
    return any(value == principal or (isinstance(value, list) and principal in value) for value in personal.values())


def _count(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def joined(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, both ends included."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges

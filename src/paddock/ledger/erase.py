"""Erasing what the ledger says of a person. The chain stays whole: it holds commitments, whose salts go too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from paddock.core.canonical import canonical_bytes
from paddock.core.clock import Clock, Random
from paddock.core.errors import NotFound
from paddock.core.events.system import LedgerErased
from paddock.ledger.entry import parse_object
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.api_keys import list_keys
from paddock.store.database import Row, Transaction

_MAX_RANGES_PER_ENTRY = 1_000  # of rows that one entry tells of
_PERSON, _LOCAL = "user:", "local:"
_FREE_TEXT_FIELDS = frozenset({"ended_why", "error_message"})
"""Fields that the host writes whole sentences into, with people's ids in them."""


def erase(
    tx: Transaction,
    tenant: str,
    principal: str,
    *,
    by: str,
    explanation: str,
    clock: Clock,
    random: Random,
    beside: int = 0,
) -> int:
    """Erase whatever one tenant's entries say of a person, record that, and give how many entries it was.

    Every entry that names them or a key of theirs goes, whoever acted. The rows are told by number, so that a row which
    somebody emptied by hand can be told from one that was erased.

    Args:
        tx: The unit of work.
        tenant: Whose chain it is.
        principal: Whom to forget, as in `user:ann`.
        by: Who erases.
        explanation: Why.
        clock: Tells when.
        random: For the entry that tells of it.
        beside: How many other rows were cleared in the same unit; it is recorded also where no entry is left to erase.

    Raises:
        NotFound: nothing tells of them.
    """
    ranges = to_ranges(_rows_naming(tx, tenant, principal_aliases(tx, tenant, principal)))
    if not ranges and not beside:
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
    table = TransactionLedger(tx, clock, random, tenant)
    for begin in range(0, len(ranges) or 1, _MAX_RANGES_PER_ENTRY):
        rows = tuple(ranges[begin : begin + _MAX_RANGES_PER_ENTRY])
        table.publish(LedgerErased(entries=_count_rows(rows), rows=rows, principal=by, explanation=explanation))
    return _count_rows(ranges)


def principal_aliases(tx: Transaction, tenant: str, principal: str) -> frozenset[str]:
    """Whom entries mean by a person: themselves, and each key that they have or ever had."""
    if not principal.startswith(_PERSON):
        return frozenset({principal})
    made = [row for row in _rows_mentioning(tx, tenant, principal) if row["type"] == "api_key.created"]
    ids = {
        parse_object(row["facts"]).get("key_id")
        for row in made
        if parse_object(row["personal"]).get("owner") == principal
    }
    ids.update(key.id for key in list_keys(tx, tenant, principal.removeprefix(_PERSON)))
    return frozenset({principal, *(f"key:{one}" for one in ids)})


def _rows_naming(tx: Transaction, tenant: str, names: Collection[str]) -> list[int]:
    """The rows in which a personal field is one of these."""
    found: set[int] = set()
    for name in names:
        rows = _rows_mentioning(tx, tenant, name)
        if name.startswith(_LOCAL):
            rows += _rows_mentioning(tx, tenant, name.removeprefix(_LOCAL))
        found.update(row["seq"] for row in rows if _names_principal(parse_object(row["personal"]), name))
    return sorted(found)


def _rows_mentioning(tx: Transaction, tenant: str, name: str) -> list[Row]:
    """The rows in whose personal part this text is, in whatever place."""
    written = canonical_bytes(name).decode()[1:-1]
    pattern = "".join(f"\\{character}" if character in "\\%_" else character for character in written)
    return tx.all(
        "SELECT seq, type, facts, personal FROM ledger WHERE tenant = ? AND personal LIKE ? ESCAPE ? ORDER BY seq",
        (tenant, f"%{pattern}%", "\\"),
    )


def _names_principal(personal: dict[str, Any], principal: str) -> bool:
    def named(name: str, value: Any) -> bool:
        if name in _FREE_TEXT_FIELDS:
            return mentions_principal(value, principal)
        if name == "operator_id" and f"{_LOCAL}{value}" == principal:
            return True
        return value == principal or (isinstance(value, list) and principal in value)

    return any(named(name, value) for name, value in personal.items())


def mentions_principal(words: object, principal: str) -> bool:
    """Whether a sentence has this id in it, and not only one that begins or ends alike."""
    if not isinstance(words, str) or ":" not in principal:
        return False
    return re.search(rf"(?<![\w.@+:-]){re.escape(principal)}(?![\w@+-]|\.\w)", words) is not None


def _count_rows(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def to_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, both ends included."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges

"""Erasure of a person's data from the ledger. The chain stays valid: it holds commitments, and their salts go too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from paddock.core.action import Action
from paddock.core.canonical import canonical_bytes
from paddock.core.clock import Clock, Random
from paddock.core.errors import NotFound
from paddock.core.events.system import LedgerErased
from paddock.ledger.entry import parse_object
from paddock.ledger.entry_hash import SealedEntry
from paddock.ledger.read.entries import open_chain
from paddock.ledger.read.rows import ChainRows
from paddock.ledger.write.append import TransactionLedger
from paddock.principals.api_keys import list_keys
from paddock.store.database import Transaction

_MAX_RANGES_PER_ENTRY = 1_000  # row ranges that one `ledger.erased` entry lists
_PERSON, _LOCAL = "user:", "local:"
_FREE_TEXT_FIELDS = frozenset({"ended_why", "error_message"})
"""Fields into which the host writes sentences that may contain principal ids."""


def erase(
    tx: Transaction,
    tenant: str,
    principal: str,
    *,
    by: str,
    explanation: str,
    clock: Clock,
    random: Random,
    other_rows: int = 0,
) -> int:
    """Erase what one tenant's entries say of a person, record the erasure, and return how many entries it was.

    Every entry that names the person or one of their API keys is erased, whoever acted. The record lists the erased
    rows by number, so that a row emptied by hand can be told from one that was erased.

    Args:
        tx: The unit of work.
        tenant: The owner of the chain.
        principal: The person to forget, as in `user:ann`.
        by: The principal who erases.
        explanation: The reason.
        clock: Source of the entry's time.
        random: Source of the entry's id and salt.
        other_rows: How many rows of other tables were cleared in the same unit. If there are any, the erasure is
            recorded even when no ledger entry is left to erase.

    Raises:
        NotFound: no entry names the person.
    """
    chain = open_chain(tx, tenant)
    naming = _rows_naming(tx, chain, principal_aliases(tx, tenant, principal))
    ranges = to_ranges(sorted(naming))
    if not ranges and not other_rows:
        raise NotFound(
            "no ledger entry names this principal",
            code="ledger.nobody",
            hint="give the whole id, such as user:ann",
            action=Action.of("ledger.tail", tenant=tenant),
            details={"tenant": tenant},
        )
    for row in naming.values():
        # The commitment follows from what is erased, so it is stored now.
        tx.execute(
            "UPDATE ledger SET personal = NULL, salt = NULL, principal = NULL, commitment = ? "
            "WHERE chain = ? AND seq = ?",
            (row.commitment, chain.chain, row.seq),
        )
    ledger = TransactionLedger(tx, clock, random, tenant)
    for begin in range(0, len(ranges) or 1, _MAX_RANGES_PER_ENTRY):
        rows = tuple(ranges[begin : begin + _MAX_RANGES_PER_ENTRY])
        ledger.publish(LedgerErased(entries=_count_rows(rows), rows=rows, principal=by, explanation=explanation))
    return _count_rows(ranges)


def principal_aliases(tx: Transaction, tenant: str, principal: str) -> frozenset[str]:
    """Return the ids by which entries mean a person: their own, their tokens', and each API key they have or had."""
    if not principal.startswith(_PERSON):
        return frozenset({principal})
    rows = _rows_mentioning(tx, open_chain(tx, tenant), principal)
    ids = {
        parse_object(row.facts).get("key_id")
        for row in rows
        if row.type == "api_key.created" and _personal_of(row).get("owner") == principal
    }
    name = principal.removeprefix(_PERSON)
    ids.update(key.id for key in list_keys(tx, tenant, name))
    return frozenset({principal, f"token:{name}", *(f"key:{one}" for one in ids)})


def _rows_naming(tx: Transaction, chain: ChainRows, names: Collection[str]) -> dict[int, SealedEntry]:
    """Return the rows in which a personal field is one of these names, by their number."""
    found: dict[int, SealedEntry] = {}
    for name in names:
        rows = _rows_mentioning(tx, chain, name)
        if name.startswith(_LOCAL):
            rows += _rows_mentioning(tx, chain, name.removeprefix(_LOCAL))
        found |= {row.seq: row for row in rows if _names_principal(_personal_of(row), name)}
    return found


def _rows_mentioning(tx: Transaction, chain: ChainRows, name: str) -> list[SealedEntry]:
    """Return the rows whose personal data contains this text anywhere."""
    escaped = canonical_bytes(name).decode()[1:-1]
    pattern = "".join(f"\\{character}" if character in "\\%_" else character for character in escaped)
    return chain.select(tx, "seq >= 1 AND personal LIKE ? ESCAPE ? ORDER BY seq", (f"%{pattern}%", "\\"))


def _personal_of(row: SealedEntry) -> dict[str, Any]:
    return {} if row.personal is None else parse_object(row.personal)


def _names_principal(personal: dict[str, Any], principal: str) -> bool:
    def names_it(name: str, value: Any) -> bool:
        if name in _FREE_TEXT_FIELDS:
            return mentions_principal(value, principal)
        if name == "operator_id" and f"{_LOCAL}{value}" == principal:
            return True
        return value == principal or (isinstance(value, list) and principal in value)

    return any(names_it(name, value) for name, value in personal.items())


def mentions_principal(text: object, principal: str) -> bool:
    """Whether a sentence contains this exact id, not merely a longer one."""
    if not isinstance(text, str) or ":" not in principal:
        return False
    return re.search(rf"(?<![\w.@+:-]){re.escape(principal)}(?![\w@+-]|\.\w)", text) is not None


def _count_rows(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def to_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Turn ascending numbers into ranges, both ends included."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges

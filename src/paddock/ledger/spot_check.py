"""Whether single entries are what their hashes say, for whoever shows them. `verify` alone tells of a whole chain."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.core.errors import HostError
from paddock.ledger.anchors import Anchors
from paddock.ledger.chain import BEGINNING
from paddock.ledger.entry import Entry
from paddock.ledger.feed import sealed
from paddock.ledger.verify import Walk, Wrong
from paddock.store.database import Transaction


def altered(tx: Transaction, entries: Iterable[Entry]) -> list[Entry]:
    """Those that somebody has changed since they were recorded, or whose row before is not the one that was there."""
    return [entry for entry in entries if _altered(tx, entry)]


def _altered(tx: Transaction, entry: Entry) -> bool:
    rows = {row.seq: row for row in sealed(tx, entry.tenant, after=entry.seq - 2, limit=2)}
    before = rows.get(entry.seq - 1)
    if entry.seq not in rows or (before is None and entry.seq > 1):
        return True
    walk = Walk(entry.tenant, Anchors(), seq=entry.seq - 1, last=before.hash if before else BEGINNING)
    try:
        walk.step(rows[entry.seq])
    except Wrong:
        return True
    return False


def require_unaltered(tx: Transaction, entries: Iterable[Entry]) -> None:
    """Say nothing on the word of an entry that somebody has changed.

    Raises:
        HostError: there is one.
    """
    for entry in altered(tx, entries):
        raise HostError(in_words(entry), code="ledger.broken", hint="see how far it goes: paddock ledger verify")


def in_words(entry: Entry) -> str:
    """What to say of one that was altered."""
    return f"row {entry.seq:,} of the ledger is not what was recorded: somebody has changed it"

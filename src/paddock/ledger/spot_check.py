"""Whether single entries are what their hashes say, for whoever shows them. `verify` alone tells of a whole chain."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.core.errors import HostError
from paddock.ledger.anchors import Anchors
from paddock.ledger.entry import Entry
from paddock.ledger.feed import head_of, sealed
from paddock.ledger.verify import Walk, Wrong
from paddock.store.database import Transaction


def altered(tx: Transaction, entries: Iterable[Entry]) -> list[Entry]:
    """Those that do not fit between the rows beside them: they were changed since they were recorded, or these were."""
    return [entry for entry in entries if _altered(tx, entry)]


def _altered(tx: Transaction, entry: Entry) -> bool:
    try:
        rows = list(sealed(tx, entry.tenant, after=max(entry.seq - 2, 0), limit=3))
    except UnicodeDecodeError:
        return True
    walk = Walk(entry.tenant, Anchors())
    if entry.seq > 1:
        before = rows.pop(0) if rows else None
        if before is None or before.seq != entry.seq - 1:
            return True
        walk.seq, walk.last = before.seq, before.hash
    try:
        # With the one after it: whoever changes a row can write its hash anew, and that of the next one is over it.
        for row in rows:
            walk.step(row)
    except Wrong:
        return True
    return walk.seq < entry.seq or (walk.seq == entry.seq and head_of(tx, entry.tenant) != (walk.seq, walk.last))


def require_unaltered(tx: Transaction, entries: Iterable[Entry]) -> None:
    """Say nothing on the word of an entry that somebody has changed.

    Raises:
        HostError: there is one.
    """
    for entry in altered(tx, entries):
        raise HostError(in_words(entry), code="ledger.broken", hint="see how far it goes: paddock ledger verify")


def in_words(entry: Entry) -> str:
    """What to say of one that was altered."""
    return f"row {entry.seq:,} of the ledger, or one beside it, is not what was recorded: somebody has changed it"

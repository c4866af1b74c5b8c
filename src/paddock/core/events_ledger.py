"""The audit events of the ledger itself."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("ledger.erased")
class LedgerErased(Event):
    """What the entries of these rows (from, to) said of a person was erased; `principal` is who did it."""

    entries: int
    rows: tuple[tuple[int, int], ...]
    principal: str
    explanation: str


@event("ledger.undescribed")
class EntryUndescribed(Event):
    """Something happened that the host failed to describe; the entry's call says to what. A fault of the host's own."""

    reason: str

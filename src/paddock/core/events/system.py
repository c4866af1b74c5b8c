"""Audit events of the host itself: ledger, policy, queue and repairs."""

from __future__ import annotations

from paddock.core.events.event import Event, event


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


@event("policy.changed")
class PolicyChanged(Event):
    """Other rules decide from now on. Recorded with the default tenant; the rules are those of all tenants."""

    old_version: str
    new_version: str


@event("queue.given_up")
class QueueGivenUp(Event):
    """Something that was to be done failed so often that it is not tried any more; `work` is the id of what it was."""

    kind: str
    work: str
    times: int
    error_code: str


@event("repair.ignored")
class RepairIgnored(Event):
    """Somebody wants to hear no more of something that needs repair, as long as its cause is the same."""

    repair: str
    by: str


@event("repair.unignored")
class RepairUnignored(Event):
    """Somebody wants to hear of it again."""

    repair: str
    by: str

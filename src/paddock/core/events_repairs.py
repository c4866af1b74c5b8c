"""Audit events of what somebody has to see to, and of who said to leave it alone."""

from __future__ import annotations

from paddock.core.event import Event, event


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

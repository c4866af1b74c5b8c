"""The audit events of the rules."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("policy.changed")
class PolicyChanged(Event):
    """Other rules decide from now on. Recorded with the default tenant; the rules are those of all tenants."""

    old_version: str
    new_version: str

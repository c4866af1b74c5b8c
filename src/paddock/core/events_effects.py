"""The audit events of effects whose outcome was not known for a while. What went as it should is told by its call."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("effect.in_doubt")
class EffectInDoubt(Event):
    """Nobody knows whether a call had its effect: its host is gone, or its plugin gave no answer that tells."""

    name: str
    method: str
    reason: str
    recovery: str


@event("effect.in_progress")
class EffectInProgress(Event):
    """An operator is still at work on a call; it is asked again and again, until then at the longest."""

    name: str
    method: str
    until: str


@event("effect.resolved")
class EffectResolved(Event):
    """It is known now what became of an effect: `state` says whether it has happened, `resolution` who says so."""

    name: str
    method: str
    state: str
    resolution: str
    by: str | None
    result_hash: str | None
    comment: str | None = None

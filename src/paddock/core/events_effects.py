"""The audit events of effects whose outcome was not known for a while. What went as it should is told by its call."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("effect.in_doubt")
class EffectInDoubt(Event):
    """The host that made a call with an effect is gone, and nobody knows whether it has happened."""

    name: str
    method: str
    reason: str
    recovery: str


@event("effect.resolved")
class EffectResolved(Event):
    """It is known now what became of an effect: `state` says whether it has happened, `resolution` who says so."""

    name: str
    method: str
    state: str
    resolution: str
    by: str | None
    result_hash: str | None

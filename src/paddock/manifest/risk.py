"""How dangerous an action is, from its declared effects: what people see first, and how lists are sorted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from paddock.manifest.effects import Effect, parse_effect


class Risk(StrEnum):
    """How dangerous something is, the most dangerous first."""

    DANGER = "danger"  # it leaves this machine and cannot be undone
    WARNING = "warning"  # it changes something, or may
    NOTICE = "notice"  # it changes nothing that lasts

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS: Final = {risk: rank for rank, risk in enumerate(Risk)}
_EFFECTS_OF_DANGER: Final = frozenset({Effect.EXTERNAL_SEND, Effect.WEBHOOK_EMIT})
_EFFECTS_OF_NOTICE: Final = frozenset({Effect.READ_ONLY, Effect.TEMP_WRITE, Effect.PRODUCE_OUTCOME})
LEAVING_EFFECTS: Final = frozenset({Effect.EXTERNAL_SEND, Effect.EXTERNAL_CALL, Effect.WEBHOOK_EMIT})
"""Effects by which data leaves this machine."""


def risk_of_effects(effects: Iterable[str]) -> Risk:
    """Return the risk of a callable with these effects. Unknown ones, and none at all, count as a change."""
    known = {parse_effect(effect) for effect in effects}
    if not known.isdisjoint(_EFFECTS_OF_DANGER):
        return Risk.DANGER
    return Risk.NOTICE if known and known <= _EFFECTS_OF_NOTICE else Risk.WARNING


def risk_of_rank(rank: int) -> Risk:
    """Return the risk of a stored rank."""
    return tuple(Risk)[rank]

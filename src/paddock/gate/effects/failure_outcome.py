"""Decides what a failed call leaves behind: no effect, or an outcome that is unknown. Pure.

Two facts decide: what is known of the effect, and where the call failed. The table has an answer for each pair.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Final

from paddock.core.errors import TimedOut
from paddock.gate.idempotency.states import EffectState
from paddock.gate.invocation import Invocation
from paddock.plugins.dialects.envelope import OutputInvalid

_TABLE_CHANGE: Final = "storage.exec"


class EffectKnowledge(StrEnum):
    """What is known of the effect of a call."""

    ONLY_READS = "only reads"  # declared, enforced by its cage, or its own word that a person takes
    MAY_CHANGE = "may change something"  # declared, or nothing is known
    ERRORS_MEAN_NOT_DONE = "errors mean not done"  # as above, and a person settled what errors of this tool mean
    CHANGED_TABLES = "changed its tables"  # as above, and this call has written in the transaction of its plugin


class FailurePoint(StrEnum):
    """Where a call failed."""

    NOT_SENT = "not sent"  # the plugin never received it
    REFUSED = "refused"  # the plugin said that nothing happened
    ERROR = "error"  # the plugin answered with an error, and said nothing of the effect
    INVALID_RESULT = "invalid result"  # the plugin answered something else than it promised
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    LOST = "lost"  # the plugin ended, or something between it and the host failed


_NO, _UNKNOWN = EffectState.FAILED_NO_EFFECT, EffectState.IN_DOUBT
_ROWS: Final = {
    # in the order of `FailurePoint`: not sent, refused, error, invalid result, timed out, cancelled, lost
    EffectKnowledge.ONLY_READS: (_NO, _NO, _NO, _NO, _NO, _NO, _NO),
    EffectKnowledge.MAY_CHANGE: (_NO, _NO, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    EffectKnowledge.ERRORS_MEAN_NOT_DONE: (_NO, _NO, _NO, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    # Its tables show more reliably than its answer whether it has changed them.
    EffectKnowledge.CHANGED_TABLES: (_NO, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
}
FAILURE_STATES: Final = {
    (knowledge, point): state
    for knowledge, states in _ROWS.items()
    for point, state in zip(FailurePoint, states, strict=True)
}

# Why an outcome is unknown, without the plugin's text, which is kept where it can be erased.
IN_DOUBT_REASONS: Final = {
    FailurePoint.REFUSED: "the plugin says that nothing happened, and has changed its tables",
    FailurePoint.ERROR: "the plugin's response does not show whether it ran",
    FailurePoint.INVALID_RESULT: "the plugin's result does not match its output schema",
    FailurePoint.TIMED_OUT: "the plugin did not answer in time",
    FailurePoint.CANCELLED: "the call was cancelled while the plugin worked on it",
    FailurePoint.LOST: "the plugin ended or was cut off before it answered",
}


def failure_state(invocation: Invocation, error: BaseException) -> EffectState:
    """Return the state of the effect of a started call that failed."""
    return FAILURE_STATES[effect_knowledge(invocation), failure_point(invocation, error)]


def effect_knowledge(invocation: Invocation) -> EffectKnowledge:
    """Return what is known of the effect of a call."""
    if invocation.only_reads:
        return EffectKnowledge.ONLY_READS
    atomic = invocation.effect is not None and invocation.effect.recovery == "atomic"
    if atomic and invocation.tally.get(_TABLE_CHANGE):
        return EffectKnowledge.CHANGED_TABLES
    settled = invocation.target.errors_mean_not_done
    return EffectKnowledge.ERRORS_MEAN_NOT_DONE if settled else EffectKnowledge.MAY_CHANGE


def failure_point(invocation: Invocation, error: BaseException) -> FailurePoint:
    """Return where a call failed."""
    delivery = invocation.delivery
    if not delivery.sent:
        return FailurePoint.NOT_SENT
    match error:
        case TimedOut():
            return FailurePoint.TIMED_OUT
        case OutputInvalid():
            return FailurePoint.INVALID_RESULT
        case _ if delivery.refused:
            return FailurePoint.REFUSED
        case asyncio.CancelledError():
            return FailurePoint.CANCELLED
        case _:
            return FailurePoint.ERROR if delivery.answered else FailurePoint.LOST

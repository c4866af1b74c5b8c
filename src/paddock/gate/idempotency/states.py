"""The life of one effect under one key: it happens once, whatever dies when. Pure.

    none → claimed → awaiting approval → started → succeeded
                                                 → failed, without an effect
                                                 → in doubt → one of these two, once it is resolved

Until it is started nothing has happened, and the key is given back where the call comes to nothing. From then on only
the plugin's own answer ends it, and a failure only where it says that nothing happened: else nobody knows. What
succeeded is given again for as long as it is kept, and after that nobody makes it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from paddock.core.errors import Invalid, Problem


class EffectState(StrEnum):
    """Where an effect is in its life. That there is none is no state: then there is no record."""

    CLAIMED = "claimed"  # a call has the key, and nothing has happened; on disk it is held or started in the same unit
    AWAITING_APPROVAL = "awaiting_approval"  # the same, and a person is asked first
    STARTED = "started"  # on record before the first byte reaches the plugin
    SUCCEEDED = "succeeded"
    FAILED_NO_EFFECT = "failed_no_effect"  # the plugin said so, or never heard of it
    IN_DOUBT = "in_doubt"  # it may have happened


class EffectTransition(StrEnum):
    """What can happen to it."""

    HOLD = "hold"  # a person is asked
    START = "start"  # it is about to reach its plugin
    SUCCEED = "succeed"  # the plugin answered
    FAIL = "fail"  # the plugin said that nothing happened, or it did not reach the plugin
    LOSE = "lose"  # no answer that counts: time is up, the plugin failed or ended, the host ended, the answer is wrong
    CLAIM_AGAIN = "claim again"  # what had no effect may be tried once more, under the same key


TRANSITIONS: dict[EffectState, dict[EffectTransition, EffectState]] = {
    EffectState.CLAIMED: {
        EffectTransition.HOLD: EffectState.AWAITING_APPROVAL,
        EffectTransition.START: EffectState.STARTED,
    },
    EffectState.AWAITING_APPROVAL: {EffectTransition.START: EffectState.STARTED},
    EffectState.STARTED: {
        EffectTransition.SUCCEED: EffectState.SUCCEEDED,
        EffectTransition.FAIL: EffectState.FAILED_NO_EFFECT,
        EffectTransition.LOSE: EffectState.IN_DOUBT,
    },
    # Only whoever looked where the effect would be can say: see `Resolution`.
    EffectState.IN_DOUBT: {
        EffectTransition.SUCCEED: EffectState.SUCCEEDED,
        EffectTransition.FAIL: EffectState.FAILED_NO_EFFECT,
    },
    EffectState.SUCCEEDED: {},
    EffectState.FAILED_NO_EFFECT: {EffectTransition.CLAIM_AGAIN: EffectState.CLAIMED},
}

FINAL_STATES = frozenset({EffectState.SUCCEEDED, EffectState.FAILED_NO_EFFECT})


class Resolution(StrEnum):
    """Who says what became of an effect that was in doubt."""

    ATOMIC = "atomic"  # the plugin's own storage has a note of it, or has none
    NATIVE_KEY = "native_key"  # it was made again under the same key, which its other side knows
    PROBE = "probe"  # the plugin looked
    HUMAN = "human"  # a person did


def next_state(state: EffectState, move: EffectTransition) -> EffectState | None:
    """Where it goes from here; None where it cannot."""
    return TRANSITIONS[state].get(move)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is known under a key, as far as it matters to whoever comes with the same one."""

    state: EffectState
    payload_hash: str
    forgotten: bool = False  # its result was kept for as long as results are kept
    principal: str | None = None  # who came with it first; not known any more of whoever was to be forgotten


@dataclass(frozen=True, slots=True)
class KeyFree:
    """The key is theirs: nobody had it, or what had it came to nothing."""


@dataclass(frozen=True, slots=True)
class KeyInUse:
    """The same call is under way, or waits for a person: what becomes of it is for both."""


@dataclass(frozen=True, slots=True)
class KeySucceeded:
    """It has happened: they get the same answer."""


@dataclass(frozen=True, slots=True)
class KeyOtherPayload:
    """The key stands for something else."""


@dataclass(frozen=True, slots=True)
class KeyOtherPrincipal:
    """The key is somebody else's, who alone gets what came of it."""


@dataclass(frozen=True, slots=True)
class KeyInDoubt:
    """It may have happened, and nobody makes it again before that is known."""


@dataclass(frozen=True, slots=True)
class KeyExpired:
    """It has happened, and what came of it is not kept any more. It is not made again."""


KeyVerdict: TypeAlias = (
    KeyFree | KeyInUse | KeySucceeded | KeyOtherPayload | KeyOtherPrincipal | KeyInDoubt | KeyExpired
)


def key_verdict(known: KeyRecord | None, payload_hash: str, principal: str | None = None) -> KeyVerdict:
    """What whoever comes with a key and a payload gets.

    One key stands for one thing, whoever comes with it; what came of that is only for whoever came first.
    """
    if known is None:
        return KeyFree()
    if known.principal not in (None, principal):
        return KeyOtherPrincipal()
    if known.payload_hash != payload_hash:
        return KeyOtherPayload()
    match known.state:
        case EffectState.CLAIMED | EffectState.AWAITING_APPROVAL | EffectState.STARTED:
            return KeyInUse()
        case EffectState.SUCCEEDED:
            return KeySucceeded() if known.principal == principal and not known.forgotten else KeyExpired()
        case EffectState.FAILED_NO_EFFECT:
            return KeyFree()
        case EffectState.IN_DOUBT:
            return KeyInDoubt()


MAX_KEY_CHARS = 255
_CALL_ID_PREFIX = "call_"  # a call without a key stands for itself, by its id


def validate_idempotency_key(text: str) -> str:
    """The key, if it is one.

    Raises:
        Invalid: it is none.
    """
    if not text or len(text) > MAX_KEY_CHARS or not text.isascii() or not text.isprintable():
        wrong, hint = f"is not 1 to {MAX_KEY_CHARS} printable characters of ASCII", "a UUID is a good one"
    elif text.startswith(_CALL_ID_PREFIX):
        wrong, hint = f"begins with {_CALL_ID_PREFIX}, as the ids of calls do", "begin it with something else"
    else:
        return text
    raise Invalid(
        "the idempotency key is not valid",
        [Problem("idempotency_key", wrong, hint, "wrong_value")],
        code="invalid_params",
    )

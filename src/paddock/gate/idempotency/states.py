"""State machine of an effect under one idempotency key: it happens at most once, whatever crashes when. Pure.

    none → claimed → awaiting approval → started → succeeded
                                                 → failed, without an effect
                                                 → in doubt → one of these two, once it is resolved

Before it is started nothing has happened, and the key is released if the call does not run. From then on only the
plugin's own answer ends it, and a failure only if it says that nothing happened: otherwise the outcome is unknown. The
result of a success is returned again for as long as it is stored. After that the effect is still not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from paddock.core.errors import Invalid, Problem


class EffectState(StrEnum):
    """State of an effect. An effect that does not exist has no state and no record."""

    CLAIMED = (
        "claimed"  # a call has the key, nothing has happened; on disk it is held or started in the same transaction
    )
    AWAITING_APPROVAL = "awaiting_approval"  # as above, and a person has to approve first
    STARTED = "started"  # recorded before the first byte reaches the plugin
    SUCCEEDED = "succeeded"
    FAILED_NO_EFFECT = "failed_no_effect"  # the plugin said so, or never received it
    IN_DOUBT = "in_doubt"  # it may have happened


class EffectTransition(StrEnum):
    """Transition between the states of an effect."""

    HOLD = "hold"  # a person has to approve first
    START = "start"  # it is about to be sent to its plugin
    SUCCEED = "succeed"  # the plugin answered
    FAIL = "fail"  # the plugin said that nothing happened, or it did not reach the plugin
    LOSE = "lose"  # no valid answer: timeout, the plugin failed or exited, the host ended, the answer is invalid
    CLAIM_AGAIN = "claim again"  # a call that had no effect may be tried again under the same key


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
    # Only a check of the place where the effect would be can tell: see `Resolution`.
    EffectState.IN_DOUBT: {
        EffectTransition.SUCCEED: EffectState.SUCCEEDED,
        EffectTransition.FAIL: EffectState.FAILED_NO_EFFECT,
    },
    EffectState.SUCCEEDED: {},
    EffectState.FAILED_NO_EFFECT: {EffectTransition.CLAIM_AGAIN: EffectState.CLAIMED},
}

FINAL_STATES = frozenset({EffectState.SUCCEEDED, EffectState.FAILED_NO_EFFECT})


class Resolution(StrEnum):
    """How the outcome of an effect in doubt was found out."""

    ATOMIC = "atomic"  # by the record in the plugin's own storage, or its absence
    NATIVE_KEY = "native_key"  # it was repeated under the same key, which the remote service deduplicates
    PROBE = "probe"  # the plugin checked
    HUMAN = "human"  # a person checked


def next_state(state: EffectState, transition: EffectTransition) -> EffectState | None:
    """Return the state after a transition; None if the transition is not allowed."""
    return TRANSITIONS[state].get(transition)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The part of an idempotency record that decides about a further call with the same key."""

    state: EffectState
    payload_hash: str
    forgotten: bool = False  # its result has expired
    principal: str | None = None  # who used the key first; None after that person was erased


@dataclass(frozen=True, slots=True)
class KeyFree:
    """The caller may use the key: it is unused, or its earlier call had no effect."""


@dataclass(frozen=True, slots=True)
class KeyInUse:
    """The same call is in progress or waits for approval: both callers get its outcome."""


@dataclass(frozen=True, slots=True)
class KeySucceeded:
    """The effect has happened: the caller gets the stored result."""


@dataclass(frozen=True, slots=True)
class KeyOtherPayload:
    """The key was used with another payload."""


@dataclass(frozen=True, slots=True)
class KeyOtherPrincipal:
    """The key belongs to another principal, who alone gets its result."""


@dataclass(frozen=True, slots=True)
class KeyInDoubt:
    """The effect may have happened, and is not repeated before that is known."""


@dataclass(frozen=True, slots=True)
class KeyExpired:
    """The effect has happened and its result is no longer stored. It is not repeated."""


KeyVerdict: TypeAlias = (
    KeyFree | KeyInUse | KeySucceeded | KeyOtherPayload | KeyOtherPrincipal | KeyInDoubt | KeyExpired
)


def key_verdict(record: KeyRecord | None, payload_hash: str, principal: str | None = None) -> KeyVerdict:
    """Decide what a caller with this key and payload gets.

    One key identifies one effect for all principals; only the principal who used it first gets the result.
    """
    if record is None:
        return KeyFree()
    if record.principal not in (None, principal):
        return KeyOtherPrincipal()
    if record.payload_hash != payload_hash:
        return KeyOtherPayload()
    match record.state:
        case EffectState.CLAIMED | EffectState.AWAITING_APPROVAL | EffectState.STARTED:
            return KeyInUse()
        case EffectState.SUCCEEDED:
            return KeySucceeded() if record.principal == principal and not record.forgotten else KeyExpired()
        case EffectState.FAILED_NO_EFFECT:
            return KeyFree()
        case EffectState.IN_DOUBT:
            return KeyInDoubt()


MAX_KEY_CHARS = 255
_CALL_ID_PREFIX = "call_"  # a call without a key uses its own id as the key


def validate_idempotency_key(text: str) -> str:
    """Return the key if it is valid.

    Raises:
        Invalid: it is not.
    """
    if not text or len(text) > MAX_KEY_CHARS or not text.isascii() or not text.isprintable():
        problem, hint = f"is not 1 to {MAX_KEY_CHARS} printable characters of ASCII", "a UUID is a good one"
    elif text.startswith(_CALL_ID_PREFIX):
        problem, hint = f"begins with {_CALL_ID_PREFIX}, as the ids of calls do", "begin it with something else"
    else:
        return text
    raise Invalid(
        "the idempotency key is not valid",
        [Problem("idempotency_key", problem, hint, "wrong_value")],
        code="invalid_params",
    )

"""State machine of an effect under one idempotency key: it happens at most once, whatever crashes when. Pure.

    none → claimed → awaiting approval → started → succeeded
                                                 → failed, without an effect
                                                 → in doubt → one of these two, once it is resolved

Before it is started nothing has happened, and the key is released if the call does not run. From then on only the
plugin's own answer ends it, and a failure only if it says that nothing happened: otherwise the outcome is unknown. The
result of a success is returned again for as long as it is stored. After that the effect is still not repeated.
"""

from __future__ import annotations

from enum import StrEnum


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

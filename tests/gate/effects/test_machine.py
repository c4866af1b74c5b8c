"""The life of an effect, as a pure machine: whatever happens in whatever order, it happens once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from paddock.gate.idempotency.key_verdict import (
    KeyExpired,
    KeyFree,
    KeyInDoubt,
    KeyInUse,
    KeyOtherPayload,
    KeyOtherPrincipal,
    KeyRecord,
    KeySucceeded,
    KeyVerdict,
    key_verdict,
)
from paddock.gate.idempotency.states import FINAL_STATES, TRANSITIONS, EffectState, EffectTransition, next_state

BEFORE_THE_START = frozenset({EffectState.CLAIMED, EffectState.AWAITING_APPROVAL})


def test_nothing_leads_out_of_what_has_happened() -> None:
    assert TRANSITIONS[EffectState.SUCCEEDED] == {}


def test_what_has_started_is_never_claimed_again_without_an_answer() -> None:
    assert all(
        EffectTransition.CLAIM_AGAIN not in TRANSITIONS[state]
        for state in EffectState
        if state is not EffectState.FAILED_NO_EFFECT
    )


def test_only_what_had_started_can_be_in_doubt() -> None:
    assert [state for state in EffectState if EffectState.IN_DOUBT in TRANSITIONS[state].values()] == [
        EffectState.STARTED
    ]


@pytest.mark.parametrize("state", list(EffectState))
def test_another_payload_under_the_same_key_is_a_clash_whatever_became_of_it(state: EffectState) -> None:
    assert key_verdict(KeyRecord(state, "sha256:a"), "sha256:b") == KeyOtherPayload()


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (None, KeyFree()),
        (KeyRecord(EffectState.CLAIMED, "h"), KeyInUse()),
        (KeyRecord(EffectState.AWAITING_APPROVAL, "h"), KeyInUse()),
        (KeyRecord(EffectState.STARTED, "h"), KeyInUse()),
        (KeyRecord(EffectState.SUCCEEDED, "h"), KeySucceeded()),
        (KeyRecord(EffectState.SUCCEEDED, "h", forgotten=True), KeyExpired()),
        (KeyRecord(EffectState.FAILED_NO_EFFECT, "h"), KeyFree()),
        (KeyRecord(EffectState.IN_DOUBT, "h"), KeyInDoubt()),
    ],
)
def test_who_comes_with_the_same_key_and_payload_gets(known: KeyRecord | None, verdict: object) -> None:
    assert key_verdict(known, "h") == verdict


@dataclass
class Attempt:
    """What really became of one attempt, and what its host heard of it. Written without a look at the states."""

    payload: str
    who: str
    asked: bool = False  # whether a person was
    sent: bool = False  # whether its start is on record, and so the plugin may have heard of it
    done: bool = False  # whether it has happened: nobody but the plugin's other side knows
    heard: Literal["nothing", "yes", "no", "silence"] = "nothing"
    found_out: bool = False
    kept: bool = True  # whether its result is

    @property
    def at_work(self) -> bool:
        return self.sent and self.heard == "nothing"

    @property
    def known(self) -> bool:
        return self.found_out or self.heard in ("yes", "no")


@dataclass(frozen=True)
class Record:
    """As it lies in a table: changed only by whoever names the state and the fence that it has."""

    known: KeyRecord
    fence: int


class OneKey(RuleBasedStateMachine):
    """Two callers with two payloads, plugins, hosts that die, people and time, all about one key, in any order."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.record: Record | None = None
        self.attempts: list[Attempt] = []  # those that have the key, or had it and came to something
        self.stale: list[tuple[Record, EffectTransition]] = []  # what others may still want to write

    # --- before the start ---------------------------------------------------------------------------------------------

    @rule(payload=st.sampled_from(["a", "b"]), who=st.sampled_from(["ann", "ann", "bob"]))
    def a_caller_comes(self, payload: str, who: str) -> None:
        verdict = self.verdict(self.record.known if self.record else None, payload, who)
        assert verdict == self._expected(payload, who)
        if verdict == KeyFree():
            fence = self.record.fence + 1 if self.record else 1
            if self.record is not None:
                assert next_state(self.record.known.state, EffectTransition.CLAIM_AGAIN) is EffectState.CLAIMED
            self.record = Record(KeyRecord(EffectState.CLAIMED, payload, principal=who), fence)
            self.attempts.append(Attempt(payload, who))

    @precondition(lambda self: self.waits and not self.last.asked)
    @rule()
    def a_person_is_asked(self) -> None:
        self._write(EffectTransition.HOLD)
        self.last.asked = True

    @precondition(lambda self: self.waits)
    @rule()
    def the_call_comes_to_nothing(self) -> None:
        assert self.record is not None and self.record.known.state in BEFORE_THE_START
        self.attempts.pop()
        former = replace(self.record.known, state=EffectState.FAILED_NO_EFFECT)
        self.record = Record(former, self.record.fence) if self.attempts else None

    @precondition(lambda self: self.waits)
    @rule()
    def it_starts(self) -> None:
        self._write(EffectTransition.START)
        self.last.sent = True

    # --- after it -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.attempts and self.last.at_work and not self.last.done)
    @rule()
    def it_happens(self) -> None:
        self.last.done = True

    @precondition(lambda self: self.attempts and self.last.at_work)
    @rule()
    def the_plugin_answers(self) -> None:
        """By its word, which is true: that it is done, or that it did nothing."""
        self._remember_stale()
        self._write(EffectTransition.SUCCEED if self.last.done else EffectTransition.FAIL)
        self.last.heard = "yes" if self.last.done else "no"

    @precondition(lambda self: self.attempts and self.last.at_work)
    @rule(happens_all_the_same=st.booleans())
    def nobody_hears_an_answer(self, happens_all_the_same: bool) -> None:
        """Its time is up, it died, the host did, or it said what is no answer. What was on its way may still arrive."""
        self._remember_stale()
        self._write(EffectTransition.LOSE)
        self.last.heard = "silence"
        self.last.done |= happens_all_the_same

    @precondition(lambda self: self.attempts and self.last.heard == "silence" and not self.last.found_out)
    @rule()
    def somebody_looks(self) -> None:
        self._remember_stale()
        self._write(EffectTransition.SUCCEED if self.last.done else EffectTransition.FAIL)
        self.last.found_out = True

    @precondition(lambda self: self.attempts and self.last.known and self.last.done and self.last.kept)
    @rule()
    def weeks_go_by(self) -> None:
        assert self.record is not None
        self.record = dataclasses.replace(self.record, known=replace(self.record.known, forgotten=True))
        self.last.kept = False

    # --- what must not change anything --------------------------------------------------------------------------------

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def a_late_word_arrives(self, data: st.DataObject) -> None:
        """Of an attempt that is over, or of a host that took another for dead: it meant what is not there any more."""
        meant, _move = data.draw(st.sampled_from(self.stale))
        assert self.record is not None
        assert (meant.known.state, meant.fence) != (self.record.known.state, self.record.fence)

    @precondition(lambda self: self.record is not None)
    @rule(move=st.sampled_from(list(EffectTransition)))
    def somebody_tries_what_makes_no_sense(self, move: EffectTransition) -> None:
        assert self.record is not None
        last = self.last
        sense = {
            EffectTransition.HOLD: not last.sent and not last.asked,
            EffectTransition.START: not last.sent,
            EffectTransition.SUCCEED: last.sent and not last.known,
            EffectTransition.FAIL: last.sent and not last.known,
            EffectTransition.LOSE: last.at_work,
            EffectTransition.CLAIM_AGAIN: last.known and not last.done,
        }
        assert (next_state(self.record.known.state, move) is not None) is sense[move]

    # --- what is true at all times ------------------------------------------------------------------------------------

    @invariant()
    def it_never_happens_twice(self) -> None:
        type(self).steps += 1
        assert sum(attempt.done for attempt in self.attempts) <= 1

    @invariant()
    def what_is_over_is_what_happened(self) -> None:
        if self.record is not None and self.record.known.state in FINAL_STATES:
            happened = any(attempt.done for attempt in self.attempts)
            assert (self.record.known.state is EffectState.SUCCEEDED) is happened

    @invariant()
    def a_key_that_stood_for_something_never_stands_for_something_else(self) -> None:
        if self.record is not None:
            assert {attempt.payload for attempt in self.attempts} == {self.record.known.payload_hash}
            assert {attempt.who for attempt in self.attempts} == {self.record.known.principal}

    # --- how it is told -----------------------------------------------------------------------------------------------

    def verdict(self, known: KeyRecord | None, payload: str, who: str) -> KeyVerdict:
        return key_verdict(known, payload, who)

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def waits(self) -> bool:
        """Whether somebody has the key, and nothing was sent."""
        return bool(self.attempts) and not self.last.sent

    def _expected(self, payload: str, who: str) -> KeyVerdict:
        if not self.attempts:
            return KeyFree()
        last = self.last
        if who != last.who:
            return KeyOtherPrincipal()
        if payload != last.payload:
            return KeyOtherPayload()
        if not last.sent or last.at_work:
            return KeyInUse()
        if not last.known:
            return KeyInDoubt()
        return KeyFree() if not last.done else KeySucceeded() if last.kept else KeyExpired()

    def _write(self, move: EffectTransition) -> None:
        assert self.record is not None
        to = next_state(self.record.known.state, move)
        assert to is not None
        self.record = dataclasses.replace(self.record, known=replace(self.record.known, state=to))

    def _remember_stale(self) -> None:
        assert self.record is not None
        self.stale += [(self.record, move) for move in (EffectTransition.SUCCEED, EffectTransition.FAIL)]


TestOneKey = OneKey.TestCase
TestOneKey.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


@pytest.mark.slow
def test_one_key_through_a_hundred_thousand_steps() -> None:
    class Long(OneKey):
        steps = 0

    run_state_machine_as_test(Long, settings=settings(max_examples=1_500, stateful_step_count=100, deadline=None))
    assert Long.steps >= 100_000


def test_a_machine_that_makes_what_is_in_doubt_again_is_found_out() -> None:
    class Careless(OneKey):
        def verdict(self, known: KeyRecord | None, payload: str, who: str) -> KeyVerdict:
            verdict = super().verdict(known, payload, who)
            return KeyFree() if verdict == KeyInDoubt() else verdict

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Careless, settings=settings(max_examples=500, deadline=None, phases=[Phase.generate]))

"""The life of an effect, as a pure machine: whatever happens in whatever order, it happens once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paddock.gate.effects.machine import (
    BEFORE_THE_START,
    OVER,
    TRANSITIONS,
    Claim,
    Clash,
    Doubt,
    Gone,
    Join,
    Known,
    Move,
    Replay,
    State,
    met,
    moved,
)

pytestmark = pytest.mark.req("K-08")


def test_nothing_leads_out_of_what_has_happened() -> None:
    assert TRANSITIONS[State.SUCCEEDED] == {}


def test_what_has_started_is_never_claimed_again_without_an_answer() -> None:
    assert all(Move.CLAIM_AGAIN not in TRANSITIONS[state] for state in State if state is not State.FAILED_NO_EFFECT)


def test_only_what_had_started_can_be_in_doubt() -> None:
    assert [state for state in State if State.IN_DOUBT in TRANSITIONS[state].values()] == [State.STARTED]


@pytest.mark.parametrize("state", list(State))
def test_another_payload_under_the_same_key_is_a_clash_whatever_became_of_it(state: State) -> None:
    assert met(Known(state, "sha256:a"), "sha256:b") == Clash()


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (None, Claim()),
        (Known(State.CLAIMED, "h"), Join()),
        (Known(State.AWAITING_APPROVAL, "h"), Join()),
        (Known(State.STARTED, "h"), Join()),
        (Known(State.SUCCEEDED, "h"), Replay()),
        (Known(State.SUCCEEDED, "h", forgotten=True), Gone()),
        (Known(State.FAILED_NO_EFFECT, "h"), Claim()),
        (Known(State.IN_DOUBT, "h"), Doubt()),
    ],
)
def test_who_comes_with_the_same_key_and_payload_gets(known: Known | None, verdict: object) -> None:
    assert met(known, "h") == verdict


class OneKey(RuleBasedStateMachine):
    """Callers, hosts that die and people who find out, all about one key, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state: State | None = None
        self.happened = 0
        self.sent = False  # whether the plugin heard of the attempt that is under way

    @rule()
    def a_caller_comes(self) -> None:
        known = None if self.state is None else Known(self.state, "h")
        if met(known, "h") == Claim():
            self.state, self.sent = State.CLAIMED, False

    @precondition(lambda self: self.state in BEFORE_THE_START)
    @rule()
    def the_call_comes_to_nothing(self) -> None:
        self.state = None if not self.happened else self.state

    @precondition(lambda self: self.state is State.CLAIMED)
    @rule()
    def a_person_is_asked(self) -> None:
        self._move(Move.HOLD)

    @precondition(lambda self: self.state in BEFORE_THE_START)
    @rule(heard=st.booleans(), done=st.booleans())
    def it_starts(self, heard: bool, done: bool) -> None:
        self._move(Move.START)
        self.sent = heard
        self.happened += heard and done
        self.done = heard and done

    @precondition(lambda self: self.state is State.STARTED)
    @rule()
    def its_host_dies(self) -> None:
        self._move(Move.LOSE)

    @precondition(lambda self: self.state in (State.STARTED, State.IN_DOUBT))
    @rule()
    def it_is_found_out(self) -> None:
        self._move(Move.SUCCEED if self.done else Move.FAIL)

    @invariant()
    def it_never_happens_twice(self) -> None:
        assert self.happened <= 1

    @invariant()
    def what_is_over_is_what_happened(self) -> None:
        if self.state in OVER:
            assert (self.state is State.SUCCEEDED) is bool(self.happened)

    def _move(self, move: Move) -> None:
        assert self.state is not None
        to = moved(self.state, move)
        assert to is not None
        self.state = to


TestOneKey = OneKey.TestCase
TestOneKey.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)

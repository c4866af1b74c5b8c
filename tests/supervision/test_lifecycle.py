"""The table of states: only its moves happen, every state is reached, and the diagram is drawn from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.paced_loop import hurrying, paced
from tests.supervision.stage import Stage
from tests.supervision.witness import WELL, on_call

from paddock.core.errors import HostError, Unavailable
from paddock.plugins.supervision.lifecycle import ALIVE, TRANSITIONS, Move, State, after

pytestmark = pytest.mark.req("G-24")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


@given(st.sampled_from(State), st.sampled_from(Move))
def test_a_move_leads_where_the_table_says_and_nowhere_else(state: State, move: Move) -> None:
    if move in TRANSITIONS[state]:
        assert after(state, move) is TRANSITIONS[state][move]
    else:
        with pytest.raises(HostError, match=f"a plugin that is {state} cannot {move}") as refused:
            after(state, move)
        assert refused.value.error_code == "lifecycle.impossible"


def reached(start: State) -> set[State]:
    found, left = {start}, [start]
    while left:
        following = set(TRANSITIONS[left.pop()].values()) - found
        found |= following
        left += following
    return found


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached_from_every_other_so_none_is_a_trap(state: State) -> None:
    assert reached(state) == set(State)


def test_every_move_is_used_and_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {move for moves in TRANSITIONS.values() for move in moves} == set(Move)


def test_a_process_comes_into_being_in_one_state_only() -> None:
    entries = {to for state, moves in TRANSITIONS.items() if state not in ALIVE for to in moves.values() if to in ALIVE}
    assert entries == {State.SPAWNING}


def test_the_documented_moves_are_in_the_table() -> None:
    documented = [
        (State.DISABLED, Move.ENABLE, State.SPAWNING),
        (State.SPAWNING, Move.HANDSHAKE_OK, State.RUNNING),
        (State.RUNNING, Move.EXITED, State.CRASHED),
        (State.RUNNING, Move.STOP, State.STOPPED),
        (State.CRASHED, Move.BACKOFF_OVER, State.SPAWNING),
        (State.CRASHED, Move.BUDGET_SPENT, State.FAILED),
        (State.FAILED, Move.ENABLE, State.SPAWNING),
    ]
    assert all(after(state, move) is to for state, move, to in documented)


def test_a_diagram_can_be_drawn_from_the_table() -> None:
    drawn = [f"{state} --> {to}: {move}" for state, moves in TRANSITIONS.items() for move, to in moves.items()]
    assert "crashed --> failed: budget spent" in drawn
    assert len(drawn) == len(set(drawn))
    assert all(line.isascii() and '"' not in line for line in drawn)


async def test_a_plugin_goes_through_its_states_as_they_are_drawn(stage: Stage) -> None:
    actor = stage.actor(on_call("os._exit(1)"), start=False)
    assert actor.status.state is State.DISABLED
    stage.supervisor.enable(actor.key)
    assert await stage.supervisor.changed(actor.key) is State.SPAWNING
    assert await stage.supervisor.changed(actor.key) is State.RUNNING
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    await actor.until(State.CRASHED)
    with hurrying():
        assert await stage.supervisor.changed(actor.key) is State.SPAWNING
    assert await stage.supervisor.changed(actor.key) is State.RUNNING
    await stage.supervisor.stop(actor.key)
    assert actor.status.state is State.STOPPED
    await stage.supervisor.disable(actor.key)
    assert stage.supervisor.status(actor.key) is None


async def test_a_plugin_that_is_enabled_and_at_once_stopped_never_starts_and_nobody_waits_for_it(stage: Stage) -> None:
    actor = stage.actor(WELL)
    await stage.supervisor.stop(actor.key)
    assert (await actor.settled()).state in (State.DISABLED, State.STOPPED)
    assert not stage.audience.events


async def test_each_state_says_in_words_why_a_call_is_refused(stage: Stage) -> None:
    actor = stage.actor("sys.exit(1)")
    with pytest.raises(Unavailable, match="actor does not run: it is being restarted: it ended") as refused:
        await actor.call("do.it")
    assert refused.value.retryable
    assert refused.value.hint == "try again in a moment"
    assert refused.value.details["state"] == "crashed"

"""The table of states: only its moves happen, every state is reached, and the diagram is drawn from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Stage
from tests.runtime.witness import WELL, on_call

from paddock.core.errors import HostError, Unavailable
from paddock.runtime.lifecycle import LIVE_STATES, TRANSITIONS, LifecycleEvent, PluginState, next_state


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


@pytest.mark.req("G-24")
@given(st.sampled_from(PluginState), st.sampled_from(LifecycleEvent))
def test_a_move_leads_where_the_table_says_and_nowhere_else(state: PluginState, move: LifecycleEvent) -> None:
    if move in TRANSITIONS[state]:
        assert next_state(state, move) is TRANSITIONS[state][move]
    else:
        with pytest.raises(HostError, match=f"a plugin that is {state} cannot {move}") as refused:
            next_state(state, move)
        assert refused.value.error_code == "lifecycle.impossible"


def reached(start: PluginState) -> set[PluginState]:
    found, left = {start}, [start]
    while left:
        following = set(TRANSITIONS[left.pop()].values()) - found
        found |= following
        left += following
    return found


@pytest.mark.parametrize("state", PluginState)
def test_every_state_is_reached_from_every_other_so_none_is_a_trap(state: PluginState) -> None:
    assert reached(state) == set(PluginState)


def test_every_move_is_used_and_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(PluginState)
    assert {move for moves in TRANSITIONS.values() for move in moves} == set(LifecycleEvent)


def test_a_process_comes_into_being_in_one_state_only() -> None:
    entries = {
        to
        for state, moves in TRANSITIONS.items()
        if state not in LIVE_STATES
        for to in moves.values()
        if to in LIVE_STATES
    }
    assert entries == {PluginState.SPAWNING}


@pytest.mark.req("G-24")
def test_the_documented_moves_are_in_the_table() -> None:
    documented = [
        (PluginState.DISABLED, LifecycleEvent.ENABLE, PluginState.SPAWNING),
        (PluginState.SPAWNING, LifecycleEvent.HANDSHAKE_OK, PluginState.RUNNING),
        (PluginState.RUNNING, LifecycleEvent.EXITED, PluginState.CRASHED),
        (PluginState.RUNNING, LifecycleEvent.STOP, PluginState.STOPPED),
        (PluginState.CRASHED, LifecycleEvent.BACKOFF_OVER, PluginState.SPAWNING),
        (PluginState.CRASHED, LifecycleEvent.BUDGET_SPENT, PluginState.FAILED),
        (PluginState.FAILED, LifecycleEvent.ENABLE, PluginState.SPAWNING),
    ]
    assert all(next_state(state, move) is to for state, move, to in documented)


def test_a_diagram_can_be_drawn_from_the_table() -> None:
    drawn = [f"{state} --> {to}: {move}" for state, moves in TRANSITIONS.items() for move, to in moves.items()]
    assert "crashed --> failed: budget spent" in drawn
    assert len(drawn) == len(set(drawn))
    assert all(line.isascii() and '"' not in line for line in drawn)


@pytest.mark.req("G-24")
async def test_a_plugin_goes_through_its_states_as_they_are_drawn(stage: Stage) -> None:
    actor = stage.actor(on_call("os._exit(1)"), start=False)
    assert actor.status.state is PluginState.DISABLED
    stage.supervisor.enable(actor.key)
    assert await stage.supervisor.wait_state_change(actor.key) is PluginState.SPAWNING
    assert await stage.supervisor.wait_state_change(actor.key) is PluginState.RUNNING
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    await actor.until(PluginState.CRASHED)
    with hurrying():
        assert await stage.supervisor.wait_state_change(actor.key) is PluginState.SPAWNING
    assert await stage.supervisor.wait_state_change(actor.key) is PluginState.RUNNING
    await stage.supervisor.stop(actor.key)
    assert actor.status.state is PluginState.STOPPED
    await stage.supervisor.disable(actor.key)
    assert stage.supervisor.status(actor.key) is None


async def test_a_plugin_that_is_enabled_and_at_once_stopped_never_starts_and_nobody_waits_for_it(stage: Stage) -> None:
    actor = stage.actor(WELL)
    await stage.supervisor.stop(actor.key)
    assert (await actor.settled()).state in (PluginState.DISABLED, PluginState.STOPPED)
    assert not stage.audience.events


async def test_each_state_says_in_words_why_a_call_is_refused(stage: Stage) -> None:
    actor = stage.actor("sys.exit(1)")
    with pytest.raises(Unavailable, match="actor does not run: it is being restarted: it ended") as refused:
        await actor.call("do.it")
    assert refused.value.retryable
    assert refused.value.hint == "try again in a moment"
    assert refused.value.details["state"] == "crashed"

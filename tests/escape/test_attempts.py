"""Programs that want out of their cage, in every kind of cage there is; not one of them does.

`walls.py` says what each attempt runs against, and `test_walls.py` proves that it would get out without that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.escape.conftest import Tried
from tests.escape.probe import doors, identity, processes, programs, resources, sockets, trees, view
from tests.escape.stage import DOORS, UNHELD

from fixtures.all_cases import all_cases

CAGES = [(way, user) for way in ("cold", "warm") for user in ("root", "ordinary user")]
GRANTED = [("granted", user) for user in ("root", "ordinary user")]


def each(sentences: Iterable[str], cages: list[tuple[str, str]] = CAGES) -> Callable[[Any], Any]:
    """A test of all these attempts in each of these cages."""

    def decorate(test: Any) -> Any:
        held = [sentence for sentence in sentences if sentence not in UNHELD]
        return pytest.mark.parametrize(("way", "user"), cages)(all_cases("attempt", held)(test))

    return decorate


@pytest.mark.req("G-18", "no plugin sees or changes the host")
@pytest.mark.req("G-31", "always caged")
@each(view.room.attempts)
def test_no_plugin_can_see_or_change_the_host(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@pytest.mark.req("G-47", "nothing else")
@each(programs.room.attempts)
def test_no_plugin_can_run_what_was_not_granted(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@pytest.mark.req("G-38", "signals")
@each(processes.room.attempts)
def test_no_plugin_can_reach_a_process_outside(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@pytest.mark.req("G-31", "no-network plugin")
@each(sockets.room.attempts)
def test_no_plugin_without_network_can_reach_anybody(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@each(identity.room.attempts)
def test_no_plugin_can_find_what_was_left_over(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@each(resources.room.attempts)
def test_no_plugin_can_use_more_than_it_was_given(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@pytest.mark.req("G-49", "system calls")
@each([*doors.room.attempts, *DOORS])
def test_no_plugin_can_make_a_refused_system_call(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told


@pytest.mark.req("G-31", "capability enforcement")
@each([*trees.room.attempts, *view.room.attempts, *programs.room.attempts], GRANTED)
def test_no_plugin_can_turn_a_granted_tree_into_more(attempt: str, way: str, user: str, tried: Tried) -> None:
    assert not tried(way, user)[attempt].out, tried(way, user)[attempt].told

"""How many plugins may be starting at once."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.supervision.stage import patiently

from paddock.plugins.supervision.start_gate import AT_ONCE, LONGEST_REST, REST, StartGate


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


async def test_one_that_hangs_before_it_has_a_process_lends_its_turn_and_waits_for_another() -> None:
    gate = StartGate()
    hung, let_go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def hanging() -> None:
        async with gate.turn() as turn:
            turn.began()
            await hung.wait()
            await turn.again()
            order.append("the one that hung")

    async def healthy() -> None:
        async with gate.turn():
            order.append("healthy")
            if len(order) == AT_ONCE:
                let_go.set()
            await ended.wait()

    slow = [asyncio.ensure_future(hanging()) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)  # they have every turn
    quick = [asyncio.ensure_future(healthy()) for _ in range(AT_ONCE)]
    await patiently(let_go.wait())
    hung.set()
    await asyncio.sleep(0)
    assert order == ["healthy"] * AT_ONCE, "more than may be starting at once"

    ended.set()
    await patiently(asyncio.gather(*slow, *quick))
    assert order[AT_ONCE:] == ["the one that hung"] * AT_ONCE


async def test_a_turn_that_is_given_back_twice_counts_once() -> None:
    gate = StartGate()
    async with gate.turn() as turn:
        turn.over()
        turn.over()
    held = [gate.turn() for _ in range(AT_ONCE)]
    for one in held:
        await patiently(one.__aenter__())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.turn().__aenter__(), 0.5)
    for one in held:
        await one.__aexit__(None, None, None)


async def test_those_that_crashed_start_one_by_one_with_a_rest_in_between_in_which_others_start() -> None:
    gate, loop = StartGate(), asyncio.get_running_loop()
    begun: list[float] = []

    async def fallen() -> None:
        async with gate.turn(crashed=True):
            begun.append(loop.time())
            await asyncio.sleep(0.1)

    again = [asyncio.ensure_future(fallen()) for _ in range(3)]
    await asyncio.sleep(0)
    async with gate.turn():  # the other place is free for who did not crash
        assert len(begun) == 1
    await patiently(asyncio.gather(*again))
    pauses = [later - earlier for earlier, later in pairwise(begun)]
    assert min(pauses) >= 0.1 + min(REST * 0.1, LONGEST_REST)


async def test_one_that_crashed_and_is_given_up_while_it_waits_is_in_nobodys_way() -> None:
    gate = StartGate()
    held = [gate.turn() for _ in range(AT_ONCE)]
    for one in held:
        await patiently(one.__aenter__())
    waiting = asyncio.ensure_future(gate.turn(crashed=True).__aenter__())
    await asyncio.sleep(0)
    waiting.cancel()
    for one in held:
        await one.__aexit__(None, None, None)
    async with asyncio.timeout(60), gate.turn(crashed=True):
        pass

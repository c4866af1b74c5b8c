"""How many plugins may be starting at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.supervision.stage import patiently

from paddock.plugins.supervision.start_gate import AT_ONCE, StartGate


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

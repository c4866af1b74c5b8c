"""How many plugins may be starting at once."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.runtime.stage import patiently

from paddock.runtime.limits.start_throttle import MAX_CONCURRENT_STARTS, MAX_SPACING_S, SPACING_FACTOR, StartThrottle


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


async def test_one_that_hangs_before_it_has_a_process_lends_its_turn_and_waits_for_another() -> None:
    gate = StartThrottle()
    hung, let_go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def hanging() -> None:
        async with gate.acquire_permit() as turn:
            turn.limit_duration()
            await hung.wait()
            await turn.reacquire()
            order.append("the one that hung")

    async def healthy() -> None:
        async with gate.acquire_permit():
            order.append("healthy")
            if len(order) == MAX_CONCURRENT_STARTS:
                let_go.set()
            await ended.wait()

    slow = [asyncio.ensure_future(hanging()) for _ in range(MAX_CONCURRENT_STARTS)]
    await asyncio.sleep(0)  # they have every turn
    quick = [asyncio.ensure_future(healthy()) for _ in range(MAX_CONCURRENT_STARTS)]
    await patiently(let_go.wait())
    hung.set()
    await asyncio.sleep(0)
    assert order == ["healthy"] * MAX_CONCURRENT_STARTS, "more than may be starting at once"

    ended.set()
    await patiently(asyncio.gather(*slow, *quick))
    assert order[MAX_CONCURRENT_STARTS:] == ["the one that hung"] * MAX_CONCURRENT_STARTS


async def test_a_turn_that_is_given_back_twice_counts_once() -> None:
    gate = StartThrottle()
    async with gate.acquire_permit() as turn:
        turn.release()
        turn.release()
    held = [gate.acquire_permit() for _ in range(MAX_CONCURRENT_STARTS)]
    for one in held:
        await patiently(one.__aenter__())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.acquire_permit().__aenter__(), 0.5)
    for one in held:
        await one.__aexit__(None, None, None)


async def test_plugins_that_crashed_together_start_again_one_after_another() -> None:
    gate = StartThrottle()
    for _ in range(20):
        async with gate.acquire_permit():
            await asyncio.sleep(0.02)  # a start takes so long
    booked = sorted(gate.reserve_restart(100.0, 101.0) for _ in range(50))
    assert booked[0] == 101.0
    assert min(later - earlier for earlier, later in pairwise(booked)) >= 0.02 * (SPACING_FACTOR - 1)
    assert booked[-1] <= 101.0 + 50 * MAX_SPACING_S


async def test_one_whose_time_comes_early_does_not_wait_behind_those_whose_time_comes_late() -> None:
    gate = StartThrottle()
    async with gate.acquire_permit():
        await asyncio.sleep(0.02)
    late = [gate.reserve_restart(100.0, 108.0) for _ in range(5)]
    assert gate.reserve_restart(100.0, 101.0) == 101.0 < min(late)
    assert gate.reserve_restart(200.0, 200.0) == 200.0, "what is over is nobody's concern"


async def test_a_slow_start_does_not_push_the_others_far_away() -> None:
    gate = StartThrottle()
    async with gate.acquire_permit():
        await asyncio.sleep(2)
    assert gate.reserve_restart(0.0, 1.0) == 1.0
    assert gate.reserve_restart(0.0, 1.0) == 1.0 + MAX_SPACING_S

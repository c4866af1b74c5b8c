"""Turns: who is alone waits for nothing, and a flood of one tenant waits for itself."""

from __future__ import annotations

import asyncio

from paddock.core.ids import Tenant
from paddock.gate.admission.fairness import MAX_STARTING_PER_TENANT, SHORT_CALL_S, TENANT_ACTIVE_S, FairScheduler

LOUD, QUIET = Tenant("loud"), Tenant("quiet")


class Hand:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_tenant_that_is_alone_never_waits() -> None:
    turns = FairScheduler(Hand())
    assert [turns.enter(LOUD) for _ in range(500)] == [None] * 500


async def test_beside_another_a_flood_waits_for_its_own_calls_and_the_other_for_nothing() -> None:
    hand = Hand()
    turns = FairScheduler(hand)
    turns.enter(QUIET)
    flood = [turns.enter(LOUD) for _ in range(64)]
    waiting = [turn for turn in flood if turn is not None]
    assert len(waiting) == 64 - MAX_STARTING_PER_TENANT
    assert turns.enter(QUIET) is None

    turns.leave(LOUD, started_at=hand.now)
    assert [turn.done() for turn in waiting[:3]] == [True, False, False], "the one that waited longest, and one alone"


async def test_calls_that_take_long_do_not_count_and_keep_nobody_waiting() -> None:
    hand = Hand()
    turns = FairScheduler(hand)
    turns.enter(QUIET)
    flood = [turns.enter(LOUD) for _ in range(MAX_STARTING_PER_TENANT + 1)]
    hand.now += 2 * SHORT_CALL_S

    async with asyncio.timeout(5):
        assert flood[-1] is not None
        await flood[-1]
    assert turns.enter(LOUD) is None


async def test_one_who_went_away_takes_no_turn_and_a_tenant_left_alone_waits_no_longer() -> None:
    hand = Hand()
    turns = FairScheduler(hand)
    turns.enter(QUIET)
    waiting = [turn for turn in [turns.enter(LOUD) for _ in range(MAX_STARTING_PER_TENANT + 3)] if turn is not None]
    waiting[0].cancel()
    turns.leave(LOUD, started_at=hand.now)
    assert [turn.cancelled() for turn in waiting] == [True, False, False]
    assert [turn.done() for turn in waiting] == [True, True, False]

    hand.now += TENANT_ACTIVE_S
    assert turns.enter(LOUD) is None

"""How much either side may hold back, and how a conversation ends. Sentences of the contract; see `contract.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.rpc.far_end import Conversing, heard, line
from tests.rpc.listening import PATIENCE, Owner

from paddock.rpc.errors import PeerLost, RpcError


class EndContract(Conversing):
    """How much either side may hold back, and how a conversation ends."""

    async def test_a_side_that_does_not_read_is_refused_more_and_noticed(self):
        owner = Owner()
        async with self.conversation(owner, stalled_after=0.3) as (peer, far):
            far.stops_listening()
            with pytest.raises(RpcError) as raised:
                for _ in range(100):
                    peer.notify("much", {"text": "x" * 100_000})
            assert raised.value.code == -32005
            await owner.until(lambda: owner.stalls)
            assert owner.stalls == 1 and owner.losses == []

    async def test_long_answers_wait_for_a_slow_reader_instead_of_getting_lost(self):
        async def long_answer(method: str, params: dict[str, Any]) -> str:
            return "x" * 1_500_000

        owner = Owner(long_answer)
        async with self.conversation(owner) as (_, far):
            await far.says(b"".join(line(id=number, method="m") for number in range(1, 6)) + line(method="asked"))
            await owner.until(lambda: owner.notifications)
            far.stops_listening()
            far.listens_again()
            assert {(await heard(far))["id"] for _ in range(5)} == {1, 2, 3, 4, 5}
            assert owner.violations == []

    async def test_a_flood_gets_its_turn_and_only_its_turn(self):
        owner = Owner()
        most_in_a_turn = heard_before = 0

        async with self.conversation(owner) as (_, far):
            saying = asyncio.ensure_future(far.says(b"x\n" * 50_000 + line(method="over")))
            async with asyncio.timeout(PATIENCE):
                while not owner.notifications:
                    await asyncio.sleep(0)
                    most_in_a_turn = max(most_in_a_turn, len(owner.noises) - heard_before)
                    heard_before = len(owner.noises)
            await saying
            assert len(owner.noises) == 50_000
            assert most_in_a_turn <= 1_000

    async def test_when_they_leave_what_they_said_is_heard_and_then_every_call_fails(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            answered, waiting = peer.request("a"), peer.request("b")
            await far.says(line(id=answered.id, result="last words") + b'{"jsonrpc":"2.0","half')
            await far.leaves()
            await owner.until(lambda: owner.losses)
            assert await answered.future == "last words"
            with pytest.raises(PeerLost):
                await waiting.future
            with pytest.raises(PeerLost):
                peer.request("c")
            assert len(owner.losses) == 1 and owner.noises == []

    async def test_when_we_close_calls_fail_with_our_reason_and_what_is_served_is_cancelled(self):
        cancelled = asyncio.Event()

        async def never(method: str, params: dict[str, Any]) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        owner = Owner(never)
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("a")
            await far.says(line(id=1, method="m") + line(method="asked"))
            await owner.until(lambda: owner.notifications)
            peer.close("stopping")
            peer.close("again")
            with pytest.raises(PeerLost, match="stopping"):
                await pending.future
            async with asyncio.timeout(PATIENCE):
                await peer.wait_closed()
            assert cancelled.is_set() and owner.losses == []

    async def test_what_we_said_just_before_closing_still_arrives(self):
        async with self.conversation(Owner()) as (peer, far):
            peer.notify("shutdown")
            peer.close("stopping")
            assert (await heard(far))["method"] == "shutdown"

    async def test_when_we_finish_they_see_the_end_and_what_they_still_say_is_heard(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("last")
            peer.finish()
            question = await heard(far)
            async with asyncio.timeout(PATIENCE):
                await far.hears_the_end()
            with pytest.raises(PeerLost):
                peer.request("more")
            await far.says(line(id=question["id"], result="answered"))
            async with asyncio.timeout(PATIENCE):
                assert await pending.future == "answered"
            peer.finish()
            await far.leaves()
            await owner.until(lambda: owner.losses)

    async def test_a_side_that_finished_towards_one_that_does_not_read_can_still_close(self):
        async with self.conversation(Owner()) as (peer, far):
            far.stops_listening()
            peer.notify("much", {"text": "x" * 900_000})
            peer.finish()
            peer.close("over")
            async with asyncio.timeout(PATIENCE):
                await peer.wait_closed()

    async def test_a_detached_call_fails_too_when_they_leave(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            late = peer.detach(peer.request("slow"))
            await far.leaves()
            await owner.until(lambda: owner.losses)
            with pytest.raises(PeerLost):
                await late

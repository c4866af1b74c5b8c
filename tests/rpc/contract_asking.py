"""What we ask, and what becomes of the answers. Sentences of the contract; see `contract.py`."""

from __future__ import annotations

import asyncio

import pytest
from tests.rpc.far_end import Conversing, heard, line
from tests.rpc.listening import PATIENCE, Owner

from paddock.rpc.errors import RpcError


class AskingContract(Conversing):
    """What we ask, and what becomes of the answers."""

    async def test_our_ids_count_from_one_and_every_answer_finds_its_question(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            asked = [peer.request("add", {"n": number}) for number in range(64)]
            questions = [await heard(far) for _ in asked]
            assert [question["id"] for question in questions] == list(range(1, 65))
            await far.says(b"".join(line(id=q["id"], result=q["params"]["n"]) for q in reversed(questions)))
            async with asyncio.timeout(PATIENCE):
                assert [await pending.future for pending in asked] == list(range(64))
            assert peer.in_flight == 0

    async def test_an_error_answer_reaches_the_caller_with_its_number_words_and_data(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("preset.install")
            await far.says(line(id=pending.id, error={"code": -32005, "message": "busy", "data": {"for": 3}}))
            with pytest.raises(RpcError) as raised:
                await pending.future
            assert (raised.value.code, raised.value.message, raised.value.data) == (-32005, "busy", {"for": 3})

    async def test_an_answer_to_nothing_we_asked_settles_nothing(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("slow")
            await far.says(line(id="1", result="text is no number") + line(id=7, result="never asked"))
            await far.says(line(id=1, result="right"))
            async with asyncio.timeout(PATIENCE):
                assert await pending.future == "right"
            assert owner.violations == ["unknown_reply", "unknown_reply"]

    async def test_late_and_second_answers_are_dropped_and_counted(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            given_up, answered = peer.request("slow"), peer.request("quick")
            peer.forget(given_up)
            await far.says(line(id=answered.id, result="first") + line(id=answered.id, result="second"))
            await far.says(line(id=given_up.id, result="late") + line(method="done"))
            await owner.until(lambda: owner.notifications)
            assert await answered.future == "first"
            assert given_up.future.cancelled()
            assert peer.late_replies == 2
            assert owner.violations == []

    async def test_a_cancelled_caller_leaves_nothing_behind(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            caller = asyncio.ensure_future(peer.call("slow"))
            question = await heard(far)
            caller.cancel()
            await asyncio.wait([caller])
            assert peer.in_flight == 0
            await far.says(line(id=question["id"], result="too late"))
            next_call = asyncio.ensure_future(peer.call("next"))
            await far.says(line(id=(await heard(far))["id"], result="in time"))
            assert await next_call == "in time"

    async def test_a_detached_call_still_tells_when_the_plugin_has_answered(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("slow")
            late = peer.detach(pending)
            assert peer.in_flight == 0 and not pending.future.done()
            await far.says(line(id=pending.id, result="after all"))
            async with asyncio.timeout(PATIENCE):
                assert await late == "after all"
            assert not pending.future.done()
            assert peer.detach(pending).done()

    async def test_a_malformed_answer_fails_its_call_instead_of_leaving_it_waiting(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("m")
            await far.says(line(id=pending.id, error="no object"))
            with pytest.raises(RpcError, match="malformed"):
                async with asyncio.timeout(PATIENCE):
                    await pending.future
            assert owner.violations == ["malformed"]

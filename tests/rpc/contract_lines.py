"""Lines: how long they may be, and what is none. Sentences of the contract; see `contract.py`."""

from __future__ import annotations

import pytest
from tests.rpc.far_end import Conversing, line, long_line
from tests.rpc.listening import Owner

from paddock.rpc.message import MAX_FRAME_BYTES


class LineContract(Conversing):
    """Lines: how long they may be, and what is none."""

    async def test_a_line_of_four_mebibytes_arrives_whole(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(long_line(MAX_FRAME_BYTES))
            await owner.until(lambda: owner.notifications)
            assert len(owner.notifications[0][1]["text"]) > MAX_FRAME_BYTES - 100

    @pytest.mark.req("G-31", "oversize message")
    async def test_one_byte_more_is_a_violation_and_the_tail_is_never_taken_for_a_message(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(line(method="before"))
            await far.says(b"x" * (MAX_FRAME_BYTES + 1))
            await owner.until(lambda: owner.violations)
            assert owner.violations == ["oversize_message"]
            await far.says(b"\n" + line(method="tail"))
            await far.leaves()
            await owner.until(lambda: owner.losses)
            assert owner.notifications == [("before", {})]
            assert owner.violations == ["oversize_message"]

    async def test_a_long_line_of_nothing_but_brackets_is_refused_before_it_is_parsed(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(b'{"jsonrpc":"2.0","method":"m","params":{"a":[' + b"[]," * 100_000)
            await owner.until(lambda: owner.violations)
            assert owner.violations == ["too_dense"]

    async def test_a_long_text_full_of_commas_and_brackets_is_no_structure(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(line(method="prose", params={"text": '[], {"well": "said"}, ' * 50_000}))
            await owner.until(lambda: owner.notifications)
            assert owner.violations == []

    async def test_lines_in_pieces_and_several_at_once_are_the_same_lines(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            whole = line(method="one") + b"\r\n\n" + line(method="two").replace(b"\n", b"\r\n") + line(method="three")
            for start in range(0, len(whole), 7):
                await far.says(whole[start : start + 7])
            await far.says(whole)
            await owner.until(lambda: len(owner.notifications) == 6)
            assert [method for method, _ in owner.notifications] == ["one", "two", "three"] * 2
            assert owner.noises == []

    async def test_what_a_program_prints_is_noticed_and_the_conversation_goes_on(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(b"loading model...\n42\n\xff\xfe\n{'a': 1}\nNaN\n" + line(method="next"))
            await owner.until(lambda: owner.notifications)
            assert owner.noises == [b"loading model...", b"42", b"\xff\xfe", b"{'a': 1}", b"NaN"]
            assert owner.violations == []

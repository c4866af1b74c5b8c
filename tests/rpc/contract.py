"""What a peer promises over every transport, as sentences.

A transport joins by subclassing `TransportContract` in a test file and saying how to connect; see `test_contract.py`.
The far end is bytes, not a peer: it can say anything, wrong things too.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import orjson
import pytest
from tests.rpc.listening import PATIENCE, Owner

from paddock.core.errors import Denied, Invalid, NotFound, PluginError, Problem
from paddock.rpc.faults import PeerLost, RpcFault
from paddock.rpc.message import MAX_FRAME
from paddock.rpc.peer import Peer
from paddock.rpc.transport import Receiver, Transport


class FarEnd(Protocol):
    """The other side of a connection, in the hands of a test."""

    async def says(self, data: bytes) -> None: ...

    async def hears(self) -> bytes:
        """The next line it was sent."""
        ...

    def stops_listening(self) -> None: ...

    def listens_again(self) -> None: ...

    async def leaves(self) -> None: ...


def line(**message: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n"


def long_line(size: int) -> bytes:
    """A notification that has exactly this many bytes without its newline."""
    empty = line(method="long", params={"text": ""})
    return empty.replace(b'""', b'"' + b"x" * (size + 1 - len(empty)) + b'"')


async def heard(far: FarEnd) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        return orjson.loads(await far.hears())


class TransportContract:
    """The sentences. A subclass connects a receiver to a far end of its kind."""

    def connect(
        self, receiver: Receiver, *, stalled_after: float = 10.0
    ) -> AbstractAsyncContextManager[tuple[Transport, FarEnd]]:
        raise NotImplementedError

    @asynccontextmanager
    async def conversation(self, owner: Owner, **options: Any):
        peer = Peer(owner)
        async with self.connect(peer, **options) as (transport, far):
            peer.attach(transport)
            try:
                yield peer, far
            finally:
                peer.close("the test is over")
                async with asyncio.timeout(PATIENCE):
                    await peer.wait_closed()

    # --- lines

    @pytest.mark.req("G-01")
    async def test_a_line_of_four_mebibytes_arrives_whole(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(long_line(MAX_FRAME))
            await owner.until(lambda: owner.notifications)
            assert len(owner.notifications[0][1]["text"]) > MAX_FRAME - 100

    @pytest.mark.req("G-01")
    @pytest.mark.req("G-31", "oversize message")
    async def test_one_byte_more_is_a_violation_and_the_tail_is_never_taken_for_a_message(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(line(method="before"))
            await far.says(b"x" * (MAX_FRAME + 1))
            await owner.until(lambda: owner.violations)
            assert owner.violations == ["oversize_message"]
            await far.says(b"\n" + line(method="tail"))
            await far.leaves()
            await owner.until(lambda: owner.losses)
            assert owner.notifications == [("before", {})]
            assert owner.violations == ["oversize_message"]

    @pytest.mark.req("G-01")
    async def test_a_long_line_of_nothing_but_brackets_is_refused_before_it_is_parsed(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(b'{"jsonrpc":"2.0","method":"m","params":{"a":[' + b"[]," * 100_000)
            await owner.until(lambda: owner.violations)
            assert owner.violations == ["too_dense"]

    @pytest.mark.req("G-01")
    async def test_a_long_text_full_of_commas_and_brackets_is_no_structure(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(line(method="prose", params={"text": '[], {"well": "said"}, ' * 50_000}))
            await owner.until(lambda: owner.notifications)
            assert owner.violations == []

    @pytest.mark.req("G-01")
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

    @pytest.mark.req("G-01")
    async def test_what_a_program_prints_is_noticed_and_the_conversation_goes_on(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(b"loading model...\n42\n\xff\xfe\n{'a': 1}\nNaN\n" + line(method="next"))
            await owner.until(lambda: owner.notifications)
            assert owner.noises == [b"loading model...", b"42", b"\xff\xfe", b"{'a': 1}", b"NaN"]
            assert owner.violations == []

    # --- asking

    @pytest.mark.req("G-02")
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

    @pytest.mark.req("G-15")
    async def test_an_error_answer_reaches_the_caller_with_its_number_words_and_data(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("preset.install")
            await far.says(line(id=pending.id, error={"code": -32005, "message": "busy", "data": {"for": 3}}))
            with pytest.raises(RpcFault) as raised:
                await pending.future
            assert (raised.value.code, raised.value.message, raised.value.data) == (-32005, "busy", {"for": 3})

    @pytest.mark.req("G-02")
    async def test_an_answer_to_nothing_we_asked_settles_nothing(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("slow")
            await far.says(line(id="1", result="text is no number") + line(id=7, result="never asked"))
            await far.says(line(id=1, result="right"))
            async with asyncio.timeout(PATIENCE):
                assert await pending.future == "right"
            assert owner.violations == ["unknown_reply", "unknown_reply"]

    @pytest.mark.req("G-02")
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

    @pytest.mark.req("G-02")
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

    @pytest.mark.req("G-02")
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

    @pytest.mark.req("G-02")
    async def test_a_malformed_answer_fails_its_call_instead_of_leaving_it_waiting(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            pending = peer.request("m")
            await far.says(line(id=pending.id, error="no object"))
            with pytest.raises(RpcFault, match="malformed"):
                async with asyncio.timeout(PATIENCE):
                    await pending.future
            assert owner.violations == ["malformed"]

    # --- being asked

    @pytest.mark.req("G-02")
    async def test_their_requests_are_answered_under_their_own_ids(self):
        async with self.conversation(Owner()) as (_, far):
            await far.says(line(id=1, method="a", params={"x": 1}) + line(id="1", method="b"))
            answers = [await heard(far), await heard(far)]
            assert [(answer["id"], answer["result"]["method"]) for answer in answers] == [(1, "a"), ("1", "b")]

    @pytest.mark.req("G-02")
    @pytest.mark.req("G-31", "batched request rejection")
    async def test_a_batch_is_refused_as_one_and_nothing_in_it_is_done(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(b"[" + line(id=1, method="a").strip() + b"," + line(method="b").strip() + b"]\n")
            answer = await heard(far)
            assert (answer["id"], answer["error"]["code"]) == (None, -32600)
            assert owner.violations == ["batch"] and owner.notifications == []

    @pytest.mark.req("G-02")
    async def test_a_notification_is_never_answered_not_even_a_wrong_one(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(line(method="fine") + line(method="wrong", params=[1]) + line(id=9, method="asked"))
            assert (await heard(far))["id"] == 9
            assert owner.notifications == [("fine", {})] and owner.violations == ["malformed"]

    @pytest.mark.req("G-02")
    @pytest.mark.parametrize(
        ("message", "id", "code"),
        [
            (b'{"id":1,"method":"m"}', 1, -32600),
            (b'{"jsonrpc":"1.0","id":1,"method":"m"}', 1, -32600),
            (b'{"jsonrpc":"2.0","id":1}', 1, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', 1, -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', 1, -32602),
            (b'{"jsonrpc":"2.0","id":null,"method":"m"}', None, -32600),
            (b'{"jsonrpc":"2.0","id":true,"method":"m"}', None, -32600),
            (b'{"jsonrpc":"2.0","id":1.0,"method":"m"}', None, -32600),
            (b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}', None, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"m","result":2}', 1, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + b"[" * 64 + b"]" * 64 + b"}}", 1, -32600),
            (b"{}", None, -32600),
        ],
    )
    async def test_a_request_that_breaks_the_rules_is_answered_with_the_documented_number(self, message, id, code):  # noqa: A002
        async with self.conversation(Owner()) as (_, far):
            await far.says(message + b"\n")
            answer = await heard(far)
            assert (answer["id"], answer["error"]["code"]) == (id, code)

    @pytest.mark.req("G-15")
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (NotFound("nothing by that name"), -32601),
            (Invalid("two mistakes", [Problem("/a", "is missing")]), -32602),
            (PluginError("failed"), -32000),
            (Denied("not granted", code="capability_denied"), -32001),
            (Denied("not yours", code="storage_access_denied"), -32003),
            (RpcFault(-32002, "not initialized"), -32002),
        ],
    )
    async def test_an_error_of_ours_is_answered_with_its_number_and_what_it_says(self, error, code):
        async def fail(method: str, params: dict[str, Any]) -> None:
            raise error

        async with self.conversation(Owner(fail)) as (_, far):
            await far.says(line(id=1, method="m"))
            answer = await heard(far)
            assert (answer["error"]["code"], answer["error"]["message"]) == (code, error.message)

    @pytest.mark.req("G-15")
    async def test_a_mistake_of_ours_is_minus_32603_and_tells_nothing(self):
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        async def stumble(method: str, params: dict[str, Any]) -> None:
            raise KeyError("a-secret-of-the-host")

        async with self.conversation(Owner(stumble)) as (_, far):
            await far.says(line(id=1, method="m"))
            assert (await heard(far))["error"] == {"code": -32603, "message": "internal error"}
        assert isinstance(reported[0]["exception"], KeyError)

    @pytest.mark.req("G-15")
    @pytest.mark.parametrize(
        "answer",
        [{1, 2}, float, "\ud800", 2**70, "x" * MAX_FRAME],
        ids=["set", "class", "half text", "big", "long"],
    )
    async def test_an_answer_that_cannot_be_written_is_an_error_answer(self, answer):
        async def serve(method: str, params: dict[str, Any]) -> Any:
            return answer

        async with self.conversation(Owner(serve)) as (_, far):
            await far.says(line(id=1, method="m"))
            assert (await heard(far))["error"]["code"] == -32603

    @pytest.mark.req("G-15")
    async def test_the_thirty_third_request_at_once_is_told_that_we_are_busy(self):
        gate = asyncio.Event()

        async def wait(method: str, params: dict[str, Any]) -> str:
            await gate.wait()
            return "done"

        async with self.conversation(Owner(wait)) as (_, far):
            await far.says(b"".join(line(id=number, method="m") for number in range(1, 34)))
            refused = await heard(far)
            assert (refused["id"], refused["error"]["code"]) == (33, -32005)
            gate.set()
            assert {(await heard(far))["id"] for _ in range(32)} == set(range(1, 33))

    @pytest.mark.req("G-02")
    async def test_two_requests_at_once_under_one_id_are_not_confused(self):
        gate = asyncio.Event()

        async def wait(method: str, params: dict[str, Any]) -> str:
            await gate.wait()
            return method

        owner = Owner(wait)
        async with self.conversation(owner) as (_, far):
            await far.says(line(id=5, method="first") + line(id=5, method="second"))
            assert (await heard(far))["error"]["code"] == -32600
            gate.set()
            assert (await heard(far))["result"] == "first"
            await far.says(line(id=5, method="third"))
            assert (await heard(far))["result"] == "third"
            assert owner.violations == ["duplicate_id"]

    # --- bounds and ends

    @pytest.mark.req("G-01")
    async def test_a_side_that_does_not_read_is_refused_more_and_noticed(self):
        owner = Owner()
        async with self.conversation(owner, stalled_after=0.3) as (peer, far):
            far.stops_listening()
            with pytest.raises(RpcFault) as raised:
                for _ in range(100):
                    peer.notify("much", {"text": "x" * 100_000})
            assert raised.value.code == -32005
            await owner.until(lambda: owner.stalls)
            assert owner.stalls == 1 and owner.losses == []

    @pytest.mark.req("G-01")
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

    @pytest.mark.req("G-01")
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

    @pytest.mark.req("G-02")
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

    @pytest.mark.req("G-02")
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

    @pytest.mark.req("G-02")
    async def test_what_we_said_just_before_closing_still_arrives(self):
        async with self.conversation(Owner()) as (peer, far):
            peer.notify("shutdown")
            peer.close("stopping")
            assert (await heard(far))["method"] == "shutdown"

    @pytest.mark.req("G-02")
    async def test_a_detached_call_fails_too_when_they_leave(self):
        owner = Owner()
        async with self.conversation(owner) as (peer, far):
            late = peer.detach(peer.request("slow"))
            await far.leaves()
            await owner.until(lambda: owner.losses)
            with pytest.raises(PeerLost):
                await late

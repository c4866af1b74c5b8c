"""What we are asked, and what we answer. Sentences of the contract; see `contract.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.rpc.far_end import Conversing, heard, line
from tests.rpc.listening import Owner

from paddock.core.errors import Denied, Invalid, NotFound, PluginError, Problem
from paddock.rpc.errors import RpcError
from paddock.rpc.message import MAX_FRAME_BYTES
from paddock.rpc.peer import REPLY_SENT


class AnsweringContract(Conversing):
    """What we are asked, and what we answer."""

    async def test_their_requests_are_answered_under_their_own_ids(self):
        async with self.conversation(Owner()) as (_, far):
            await far.says(line(id=1, method="a", params={"x": 1}) + line(id="1", method="b"))
            answers = [await heard(far), await heard(far)]
            assert [(answer["id"], answer["result"]["method"]) for answer in answers] == [(1, "a"), ("1", "b")]

    @pytest.mark.req("G-31", "batched request rejection")
    async def test_a_batch_is_refused_as_one_and_nothing_in_it_is_done(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(b"[" + line(id=1, method="a").strip() + b"," + line(method="b").strip() + b"]\n")
            answer = await heard(far)
            assert (answer["id"], answer["error"]["code"]) == (None, -32600)
            assert owner.violations == ["batch"] and owner.notifications == []

    async def test_a_notification_is_never_answered_not_even_a_wrong_one(self):
        owner = Owner()
        async with self.conversation(owner) as (_, far):
            await far.says(line(method="fine") + line(method="wrong", params=[1]) + line(id=9, method="asked"))
            assert (await heard(far))["id"] == 9
            assert owner.notifications == [("fine", {})] and owner.violations == ["malformed"]

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

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (NotFound("nothing by that name"), -32601),
            (Invalid("two mistakes", [Problem("/a", "is missing")]), -32602),
            (PluginError("failed"), -32000),
            (Denied("not granted", code="capability_denied"), -32001),
            (Denied("not yours", code="storage_access_denied"), -32003),
            (RpcError(-32002, "not initialized"), -32002),
        ],
    )
    async def test_an_error_of_ours_is_answered_with_its_number_and_what_it_says(self, error, code):
        async def fail(method: str, params: dict[str, Any]) -> None:
            raise error

        async with self.conversation(Owner(fail)) as (_, far):
            await far.says(line(id=1, method="m"))
            answer = await heard(far)
            assert (answer["error"]["code"], answer["error"]["message"]) == (code, error.message)

    async def test_a_mistake_of_ours_is_minus_32603_and_tells_nothing(self):
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        async def stumble(method: str, params: dict[str, Any]) -> None:
            raise KeyError("a-secret-of-the-host")

        async with self.conversation(Owner(stumble)) as (_, far):
            await far.says(line(id=1, method="m"))
            assert (await heard(far))["error"] == {"code": -32603, "message": "internal error"}
        assert isinstance(reported[0]["exception"], KeyError)

    @pytest.mark.parametrize(
        "answer",
        [{1, 2}, float, "\ud800", 2**70, "x" * MAX_FRAME_BYTES],
        ids=["set", "class", "half text", "big", "long"],
    )
    async def test_an_answer_that_cannot_be_written_is_an_error_answer(self, answer):
        async def serve(method: str, params: dict[str, Any]) -> Any:
            return answer

        async with self.conversation(Owner(serve)) as (_, far):
            await far.says(line(id=1, method="m"))
            assert (await heard(far))["error"]["code"] == -32603

    @pytest.mark.parametrize("size", [10, 100_000], ids=["short", "long"])
    async def test_an_answer_from_a_thread_arrives_once_and_its_id_is_free_at_once(self, size: int):
        def answered() -> Any:
            result = "x" * size
            return REPLY_SENT if owner.asked.reply_early(result) else result

        async def serve(method: str, params: dict[str, Any]) -> Any:
            return await asyncio.to_thread(answered)

        owner = Owner(serve)
        async with self.conversation(owner) as (_, far):
            for _ in range(20):
                await far.says(line(id=1, method="m"))
                assert await heard(far) == {"jsonrpc": "2.0", "id": 1, "result": "x" * size}
            await far.says(line(id=2, method="m"))
            assert (await heard(far))["id"] == 2
        assert owner.violations == []

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

    async def test_requests_that_others_wait_for_pass_these_and_are_bounded_too(self):
        gate = asyncio.Event()

        async def wait(method: str, params: dict[str, Any]) -> str:
            await gate.wait()
            return "done"

        async with self.conversation(Owner(wait), passes=lambda method, _: method == "urgent") as (_, far):
            await far.says(b"".join(line(id=number, method="m") for number in range(1, 33)))
            await far.says(b"".join(line(id=number, method="urgent") for number in range(33, 42)))
            refused = await heard(far)
            assert (refused["id"], refused["error"]["code"]) == (41, -32005)
            gate.set()
            assert {(await heard(far))["id"] for _ in range(40)} == set(range(1, 41))

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

"""A plugin whose code is async runs on an event loop, and then several of its calls run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import PATIENCE
from tests.sdk.workers import shu, working, write

TOGETHER = """
import asyncio

class Plugin:
    def __init__(self):
        self.here = 0
        self.all_here = asyncio.Event()
    async def execute(self, params, context, host):
        what = params["what"]
        if what == "meet":
            self.here += 1
            if self.here == 3:
                self.all_here.set()
            await self.all_here.wait()
            return self.here
        if what == "gather":
            return await asyncio.gather(host.cache.get("a"), host.cache.get("b"))
        if what == "blocking":
            return host.cache.get("a").wait()
        if what == "sleep":
            try:
                await asyncio.sleep(600)
            finally:
                host.logger.info("cleaned up")
        if what == "timeout":
            async with asyncio.timeout(0.01):
                await asyncio.sleep(600)
        if what == "stream":
            return self.steps()
        return what
    async def steps(self):
        for number in range(3):
            await asyncio.sleep(0)
            yield {"number": number}
        yield {"status": "success", "data": "end"}
"""


def cache(method: str, params: dict[str, Any]) -> Any:
    return {"value": params["key"].upper()}


def test_calls_run_side_by_side_and_answer_when_they_are_done(tmp_path: Path) -> None:
    with shu(tmp_path, TOGETHER) as plugin:
        calls = [plugin.begin({"what": "meet"}) for _ in range(3)]
        answers = [plugin.wire.receive() for _ in calls]
    assert sorted(answer["id"] for answer in answers) == calls
    assert [answer["result"]["data"] for answer in answers] == [3, 3, 3]


def test_questions_of_one_call_are_gathered_and_do_not_hold_up_another(tmp_path: Path) -> None:
    with shu(tmp_path, TOGETHER, cache, capabilities=["host:cache"]) as plugin:
        asking = plugin.begin({"what": "gather"})
        questions = [plugin.wire.receive() for _ in range(2)]
        assert plugin.call({"what": "meanwhile"})["data"] == "meanwhile"
        for question in reversed(questions):
            plugin.reply(question)
        assert plugin.until_answered(asking)["result"]["data"] == ["A", "B"]


def test_code_that_blocks_for_the_host_on_the_loop_loses_nothing_that_came_meanwhile(tmp_path: Path) -> None:
    with shu(tmp_path, TOGETHER, cache, capabilities=["host:cache"]) as plugin:
        blocking = plugin.begin({"what": "blocking"})
        question = plugin.wire.receive()
        later = plugin.begin({"what": "later"})
        plugin.reply(question)
        answers = {said["id"]: said["result"]["data"] for said in (plugin.wire.receive(), plugin.wire.receive())}
    assert answers == {blocking: "A", later: "later"}


def test_a_cancelled_call_is_cancelled_as_asyncio_does_it_and_the_others_go_on(tmp_path: Path) -> None:
    with shu(tmp_path, TOGETHER) as plugin:
        sleeping = plugin.begin({"what": "sleep"})
        assert plugin.wire.call("ping") == {"status": "ok"}
        plugin.wire.tell("paddock.cancel", {"id": sleeping})
        assert plugin.until_answered(sleeping)["error"] == {"code": -32000, "message": "cancelled"}
        assert plugin.call({"what": "next"})["data"] == "next"
        assert plugin.failure({"what": "timeout"})["message"] == "the plugin failed (TimeoutError)"
        _, log = plugin.wire.end()
    assert log[0]["message"] == "cleaned up"


def test_a_call_and_its_cancellation_that_arrive_together_are_still_answered(tmp_path: Path) -> None:
    with shu(tmp_path, TOGETHER) as plugin:
        call = '{"jsonrpc":"2.0","id":77,"method":"worker.call","params":{"callable":"it","payload":{"what":"x"}}}\n'
        plugin.wire.send_bytes((call + '{"jsonrpc":"2.0","method":"paddock.cancel","params":{"id":77}}\n').encode())
        assert plugin.wire.receive() == {"jsonrpc": "2.0", "id": 77, "error": {"code": -32000, "message": "cancelled"}}


def test_an_async_generator_streams_on_the_loop_too(tmp_path: Path) -> None:
    with shu(tmp_path, TOGETHER) as plugin:
        assert plugin.call({"what": "stream"}) == {"status": "success", "data": "end"}
        assert [event["data"]["number"] for event in plugin.events] == [0, 1, 2]


@pytest.mark.parametrize("how", ["shutdown", "closed"])
def test_what_was_asked_before_the_end_is_answered(tmp_path: Path, how: str) -> None:
    with shu(tmp_path, TOGETHER) as plugin:
        calls = [plugin.begin({"what": "meet"}) for _ in range(3)]
        if how == "shutdown":
            plugin.wire.tell("shutdown")
        else:
            assert plugin.wire.process.stdin
            plugin.wire.process.stdin.close()
        assert sorted(plugin.wire.receive()["id"] for _ in calls) == calls
        assert plugin.wire.process.wait(PATIENCE) == 0


def test_a_plugin_that_is_not_async_does_not_load_asyncio_and_may_use_it_by_itself(tmp_path: Path) -> None:
    code = """
    import sys
    class Plugin:
        def execute(self, params, context, host):
            if params:
                import asyncio
                return asyncio.run(asyncio.sleep(0, "slept"))
            return [name in sys.modules for name in ("asyncio", "inspect", "dataclasses", "traceback")]
    """
    with shu(tmp_path, code) as plugin:
        assert plugin.call()["data"] == [False] * 4
        assert [plugin.call({"sleep": 1})["data"] for _ in range(2)] == ["slept"] * 2


LIBRARY = "import asyncio\nasync def nap():\n    await asyncio.sleep(0.001)\n    return 'slept'\n"
NAPPING = {
    "async function": "async def execute(self, params, context, host): return await nap()",
    "async generator": "async def execute(self, *given): yield {'status': 'success', 'data': await nap()}",
    "plain function that gives an awaitable": "def execute(self, params, context, host): return nap()",
    "async schema": "async def get_schema(self): return {'title': await nap()}\n"
    "    def execute(self, params, context, host): return 'slept'",
}


@pytest.mark.parametrize("how", NAPPING)
def test_a_library_may_need_a_loop_whatever_the_plugins_own_files_speak_of(tmp_path: Path, how: str) -> None:
    write(
        tmp_path, {"site/sleepy.py": LIBRARY, "plug.py": f"from sleepy import nap\nclass Plugin:\n    {NAPPING[how]}\n"}
    )
    with working(tmp_path, {"it": "plug:Plugin"}, site=[str(tmp_path / "site")]) as plugin:
        assert plugin.describe()["it"]["input_schema"] == ({"title": "slept"} if how == "async schema" else None)
        assert [plugin.call()["data"] for _ in range(2)] == ["slept"] * 2


def test_calls_that_came_before_the_first_one_that_needs_a_loop_are_served_on_it(tmp_path: Path) -> None:
    code = """
    import asyncio
    class Plugin:
        together = asyncio.Event()
        def execute(self, params, context, host):
            key = host.cache.get(params["key"]).wait()
            return self.meet(key)
        async def meet(self, key):
            if key == "B":
                self.together.set()
            await self.together.wait()
            return key
    """
    with shu(tmp_path, code, cache, capabilities=["host:cache"]) as plugin:
        calls = [plugin.begin({"key": "a"})]
        question = plugin.wire.receive()
        calls.append(plugin.begin({"key": "b"}))
        plugin.reply(question)
        plugin.reply(plugin.wire.receive())
        assert sorted(plugin.wire.receive()["id"] for _ in calls) == calls


def test_awaiting_what_nothing_can_bring_fails_the_call_alone(tmp_path: Path) -> None:
    code = """
    class Forever:
        def __await__(self):
            yield self
    class Plugin:
        async def execute(self, params, context, host):
            return await Forever() if params else "fine"
    """
    with shu(tmp_path, code) as plugin:
        assert plugin.failure({"wait": 1})["message"] == "the plugin failed (RuntimeError)"
        assert plugin.call()["data"] == "fine"

"""Async handlers of a plugin that is its own program: they may await anything, and the host is heard meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.sdk.conversation import Conversation, conversation

PROGRAM = """
import asyncio
from paddock_sdk import Host, Plugin
from typing import Any

plugin = Plugin("nap", "1.0.0")
loops = []
woken = asyncio.Event()

@plugin.tool
async def together(host: Host) -> dict[str, Any]:
    loops.append(asyncio.get_running_loop())
    woken.set()
    value, _, line = await asyncio.gather(host.cache.get("k"), asyncio.sleep(0.01), asyncio.to_thread(str, 5))
    return {"value": value, "line": line, "same loop": len(set(loops)) == 1}

@plugin.tool
async def impatient(host: Host) -> str:
    try:
        return await asyncio.wait_for(host.cache.get("slow"), 0.01)
    except TimeoutError:
        return "gave up"

@plugin.tool
async def ticks():
    for number in range(2):
        await asyncio.sleep(0)
        yield number

@plugin.tool
async def forever() -> None:
    plugin.progress(0)
    try:
        await asyncio.sleep(60)
    finally:
        plugin.log.info("cleaned up")

@plugin.tool
async def lingering(host: Host) -> str:
    async def later():
        await woken.wait()
        host.cache.set("late", 1)
    plugin.task = asyncio.create_task(later())
    return "done"

plugin.run()
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Conversation, None, None]:
    (tmp_path / "nap.py").write_text(PROGRAM)
    with conversation(["python3", "nap.py"], tmp_path) as talk:
        talk.greet("nap")
        yield talk


def test_an_async_handler_awaits_the_host_a_timer_and_a_thread_at_once(plugin: Conversation) -> None:
    for _ in range(2):
        call = plugin.ask("nap.together")
        asked = plugin.receive()
        plugin.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": 7}})
        assert plugin.receive() == {
            "jsonrpc": "2.0",
            "id": call,
            "result": {"value": 7, "line": "5", "same loop": True},
        }


def test_a_wait_for_the_host_can_time_out_and_pings_are_answered_meanwhile(plugin: Conversation) -> None:
    call = plugin.ask("nap.impatient")
    assert plugin.receive()["method"] == "paddock.cache.get"
    assert plugin.receive() == {"jsonrpc": "2.0", "id": call, "result": "gave up"}
    waiting = plugin.ask("nap.forever")
    assert plugin.receive()["method"] == "paddock.event"
    assert plugin.call("ping") == {"status": "ok"}
    plugin.send({"jsonrpc": "2.0", "method": "paddock.cancel", "params": {"id": waiting}})
    assert plugin.receive()["error"]["message"] == "cancelled"


def test_an_async_generator_streams_what_it_yields_between_its_waits(plugin: Conversation) -> None:
    plugin.ask("nap.ticks")
    assert [plugin.receive()["params"]["event"]["data"] for _ in range(2)] == [0, 1]
    assert plugin.receive()["result"] is None


def test_a_task_that_outlives_its_call_does_not_speak_for_the_next_one(plugin: Conversation) -> None:
    assert plugin.call("nap.lingering", {"_call": "first"}) == "done"
    plugin.ask("nap.together", {"_call": "second"})
    tokens = {asked["method"]: asked["params"]["_call"] for asked in (plugin.receive(), plugin.receive())}
    assert tokens == {"paddock.cache.set": "first", "paddock.cache.get": "second"}


def test_the_program_ends_when_the_host_is_gone_in_the_middle_of_a_wait(plugin: Conversation) -> None:
    plugin.ask("nap.forever")
    plugin.receive()
    code, log = plugin.end()
    assert (code, [line["message"] for line in log]) == (0, ["cleaned up"])

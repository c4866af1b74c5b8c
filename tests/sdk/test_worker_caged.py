"""The worker inside a real cage: forks, pipes and an event loop work behind its walls too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.runtime.stage import Actor, Stage, open_stage, patiently

from paddock.core.errors import PluginError

# The worker as the program of a plugin named `worker`, whose tool `call` is then `worker.call` on the wire.
PROGRAM = """
root = os.path.dirname(os.path.abspath(__file__))
os.environ["PADDOCK_WORKER"] = json.dumps({"name": "worker", "version": "1.0.0", "root": root, **ORDERS})
from paddock_sdk.worker.start import start
start()
"""


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as opened:
        yield opened


def hosted(stage: Stage, code: str, **orders: Any) -> Actor:
    told = {"dialect": "kernel", "kind": "agent", "entrypoints": {"it": "plug:run"}, **orders}
    root = stage.folder / "plugin-worker"
    root.mkdir()
    (root / "plug.py").write_text(dedent(code))
    tool = {"name": "call", "description": "Call it", "effects": ["read_only"], "input_schema": {"type": "object"}}
    return stage.actor(f"ORDERS = {told!r}\n{PROGRAM}", "worker", methods=[], tools=[tool])


async def call(actor: Actor, **payload: Any) -> Any:
    return await actor.call("call", callable="it", payload=payload, envelope={})


async def test_an_agents_forks_run_side_by_side_in_its_cage_and_keep_nothing(stage: Stage) -> None:
    code = """
    import os, socket, time
    calls = 0
    def run(call):
        global calls
        calls += 1
        if call.get("die"):
            os._exit(7)
        try:
            with open("/tmp/planted", "a") as file:
                file.write("x")
            wrote = True
        except OSError:
            wrote = False
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=5)
            reached = True
        except OSError:
            reached = False
        return {"calls": calls, "wrote": wrote, "reached": reached, "pid": os.getpid()}
    """
    actor = hosted(stage, code)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call(actor)) for _ in range(6)]
        lost = group.create_task(patiently(_failure(actor)))
    answers = [task.result() for task in tasks]
    assert [(one["calls"], one["wrote"], one["reached"]) for one in answers] == [(1, False, False)] * 6
    assert len({one["pid"] for one in answers}) == 6
    assert "the process of this call ended with 7" in lost.result()
    assert actor.status.failures == 0


async def _failure(actor: Actor) -> str:
    with pytest.raises(PluginError) as caught:
        await call(actor, die=True)
    return str(caught.value)


async def test_a_caller_that_gives_up_ends_the_fork_and_not_the_agent(stage: Stage) -> None:
    code = """
    import time
    def run(call):
        if call.get("sleep"):
            yield {"type": "progress", "progress": 1}
            time.sleep(600)
        return {"fine": True}
    """
    actor = hosted(stage, code)
    begun = asyncio.Event()
    waiting = asyncio.ensure_future(
        stage.supervisor.call(
            actor.key,
            actor.spec("call"),
            {"callable": "it", "payload": {"sleep": True}, "envelope": {}},
            stage.context(),
            on_event=lambda _event: begun.set(),
        )
    )
    await patiently(begun.wait())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await call(actor) == {"fine": True}
    assert actor.status.failures == 0


async def test_a_plugin_on_an_event_loop_serves_many_callers_in_its_cage(stage: Stage) -> None:
    code = """
    import asyncio
    class Plugin:
        def __init__(self):
            self.here, self.together = 0, asyncio.Event()
        async def execute(self, params, context, host):
            self.here += 1
            if self.here == 4:
                self.together.set()
            await self.together.wait()
            return self.here
    """
    actor = hosted(stage, code, dialect="shu", kind="plugin", entrypoints={"it": "plug:Plugin"})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call(actor)) for _ in range(4)]
    assert [task.result() for task in tasks] == [{"status": "success", "data": 4}] * 4


@pytest.mark.req("S-20", "no network anyway")
async def test_the_cage_alone_holds_a_plugin_that_talks_its_way_around_the_hook(stage: Stage) -> None:
    code = """
    import builtins, sys
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ImportGuard"]
    builtins.__import__ = builtins.__import__.__self__._import
    import http.client
    class Plugin:
        def execute(self, params, context, host):
            try:
                import paddock
            except ModuleNotFoundError:
                paddock = None
            connection = http.client.HTTPConnection("192.0.2.1", timeout=5)
            try:
                connection.request("GET", "/")
            except OSError as error:
                return {"paddock": paddock is not None, "refused": type(error).__name__}
    """
    actor = hosted(stage, code, dialect="shu", kind="plugin", entrypoints={"it": "plug:Plugin"})
    answer = (await call(actor))["data"]
    assert answer["paddock"] is False and answer["refused"] in ("OSError", "ConnectionRefusedError")

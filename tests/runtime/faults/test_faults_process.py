"""Plugins whose processes fall, hang or take too much: each is ended and started again, and nobody else notices."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Stage
from tests.runtime.witness import (
    UNASKED,
    Bystander,
    cage_mates,
    fallen,
    gone,
    on_call,
    runs_again,
    told,
)

from paddock.cage.spec import MIB, ResourceLimits
from paddock.core.error_formats import json_rpc_error
from paddock.core.errors import TimedOut, Unavailable
from paddock.core.events.plugin_runtime import PluginCrashed, PluginMethodReturned
from paddock.runtime.lifecycle import PluginState

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


@pytest.mark.req("G-29", "plugin.crashed")
async def test_a_plugin_that_crashes_in_a_call_fails_it_at_once_and_answers_the_next_after_a_pause(
    stage: Stage,
) -> None:
    actor = stage.actor(on_call('print("the sky fell", file=sys.stderr, flush=True); os._exit(3)'))
    with pytest.raises(Unavailable, match="ended before it answered") as failed:
        await actor.call("do.it")
    assert failed.value.retryable
    status, crashed = await fallen(actor)
    assert status.reason == "it ended with exit status 3; its last log line: the sky fell"
    assert crashed == PluginCrashed(name="actor", exit_code=3, signal=None, last_stderr=("the sky fell",))
    assert [returned.success for returned in told(stage, PluginMethodReturned)] == [False]
    with pytest.raises(Unavailable, match="it is being restarted") as waiting:
        await actor.call("do.it", say="well")
    assert waiting.value.details == {"plugin": "actor", "state": "crashed", "reason_code": "plugin.crashed"}
    await runs_again(actor)


@pytest.mark.req("G-41")
@pytest.mark.parametrize(
    "hang",
    [
        pytest.param("time.sleep(600)", id="and answers no ping"),
        pytest.param("return None", id="and answers every ping"),
    ],
)
@pytest.mark.req("G-31", "method timeout")
async def test_a_call_that_hangs_fails_after_thirty_seconds_and_the_plugin_is_killed_and_restarted(
    stage: Stage, hang: str
) -> None:
    actor = stage.actor(on_call(hang), timing={"health_interval_sec": 10})
    await actor.settled()
    with hurrying(), pytest.raises(TimedOut, match="actor did not answer within 30 s") as late:
        await actor.call("do.it")
    assert json_rpc_error(late.value)["code"] == -32603
    status, crashed = await fallen(actor)
    assert status.reason == "a call was not answered within 30 s"
    assert (status.failures, crashed.signal) == (1, 9)
    await runs_again(actor)


async def test_other_calls_under_way_in_a_plugin_that_hangs_fail_as_worth_another_try(stage: Stage) -> None:
    actor = stage.actor(
        "hello()\nserve(do_it=lambda request: None, do_more=lambda request: None)",
        methods=[
            {"name": "do.it", "effects": ["read_only"]},
            {"name": "do.more", "effects": ["read_only"], "timeout_sec": 300},
        ],
        timing=UNASKED,
    )
    await actor.settled()
    other = asyncio.create_task(actor.call("do.more"))
    with hurrying(), pytest.raises(TimedOut):
        await actor.call("do.it")
    with pytest.raises(Unavailable, match="ended before it answered") as failed:
        await other
    assert failed.value.retryable


@pytest.mark.req("G-22", "restarts back off")
@pytest.mark.req("G-31", "crash restart")
async def test_a_plugin_that_somebody_kills_is_started_again_within_its_pause(stage: Stage) -> None:
    actor = stage.actor(on_call())
    pid = (await actor.settled()).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    status, crashed = await fallen(actor)
    assert status.reason == "it was ended by SIGKILL"
    assert crashed == PluginCrashed(name="actor", exit_code=None, signal=9, last_stderr=())
    assert status.restarts_in is not None
    assert status.restarts_in <= 1.2
    await runs_again(actor)
    assert actor.status.pid != pid


@pytest.mark.parametrize(
    ("end", "code", "number", "reason"),
    [
        pytest.param("sys.exit(0)", 0, None, "it ended by itself; it wrote nothing to its log", id="content"),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", None, 11, "it was ended by SIGSEGV", id="by a fault"),
        pytest.param("os.abort()", None, 6, "it was ended by SIGABRT", id="by its own hand"),
        pytest.param(
            'raise OSError("x" * 9999)', 1, None, "it ended with exit status 1; its last log line: OSError", id="e"
        ),
    ],
)
async def test_a_plugin_that_ends_unasked_has_crashed_whatever_its_exit_says(
    stage: Stage, end: str, code: int | None, number: int | None, reason: str
) -> None:
    actor = stage.actor(on_call(end))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    status, crashed = await fallen(actor)
    assert status.reason.startswith(reason)
    assert len(status.reason) < 300
    assert (crashed.exit_code, crashed.signal) == (code, number)
    assert status.failures == 1


async def test_what_a_plugin_left_running_behind_its_back_is_gone_with_it(stage: Stage) -> None:
    twice = "if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: time.sleep(600)\n        os._exit(0)"
    actor = stage.actor(on_call(twice, 'os.wait(); return {"done": True}'))
    assert await actor.call("do.it") == {"done": True}
    pid = actor.status.pid
    assert pid is not None
    left_behind = cage_mates(pid)
    assert len(left_behind) >= 2
    os.kill(pid, signal.SIGKILL)
    await fallen(actor)
    assert gone(left_behind, within=2)


async def test_a_fork_bomb_stays_within_its_cage_and_ends_with_its_call(stage: Stage, bystander: Bystander) -> None:
    stage.limits = ResourceLimits(pids=20)
    bomb = "while True:\n        try: os.fork()\n        except OSError: os.write(2, b'full\\n'); time.sleep(0.2)"
    actor = stage.actor(on_call(bomb), timing=UNASKED)
    pid = (await actor.settled()).pid
    assert pid is not None
    call = asyncio.create_task(actor.call("do.it"))
    await stage.audience.until(lambda: "full" in stage.audience.lines)
    bombs = cage_mates(pid)
    assert 15 <= len(bombs) <= 21
    await bystander.unmoved()
    with hurrying(), pytest.raises(TimedOut):
        await call
    await fallen(actor)
    assert gone(bombs, within=2)
    await runs_again(actor)


async def test_a_plugin_that_takes_more_memory_than_it_may_is_ended_and_told_so(stage: Stage) -> None:
    stage.limits = ResourceLimits(memory_bytes=96 * MIB)
    actor = stage.actor(on_call('taken = []\n    while True: taken.append(b"x" * 1_000_000)'))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    status, crashed = await fallen(actor)
    assert "memory" in status.reason
    assert "limits.memory_mb" in status.hint
    assert (crashed.exit_code, crashed.signal) != (0, None)
    await runs_again(actor)


async def test_a_plugin_that_spins_slows_nobody_and_ends_with_its_call(stage: Stage, bystander: Bystander) -> None:
    actor = stage.actor(on_call("while True: pass"), timing=UNASKED)
    await actor.settled()
    call = asyncio.create_task(actor.call("do.it"))
    async with asyncio.timeout(10):
        for _ in range(50):
            await bystander.call()
    with hurrying(), pytest.raises(TimedOut):
        await call
    await fallen(actor)
    await runs_again(actor)


async def test_a_plugin_that_stops_itself_is_taken_for_hung(stage: Stage) -> None:
    actor = stage.actor(on_call("os.kill(os.getpid(), signal.SIGSTOP)"), timing=UNASKED)
    await actor.settled()
    with hurrying(), pytest.raises(TimedOut):
        await actor.call("do.it")
    _, crashed = await fallen(actor)
    assert crashed.signal == 9
    await runs_again(actor)


async def test_a_plugin_that_is_told_to_stop_while_it_falls_is_not_started_again(stage: Stage) -> None:
    actor = stage.actor(on_call("os._exit(1)"))
    with pytest.raises(Unavailable):
        await actor.call("do.it")
    await fallen(actor)
    await stage.supervisor.stop(actor.key)
    assert actor.status.state is PluginState.STOPPED
    assert actor.status.restarts_in is None
    assert await actor.call("do.it", say="well") == {"well": True}

"""Calls that take too long, and calls that nobody waits for any more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.runtime.stage import Actor, Stage, patiently

from paddock.core.error_formats import json_rpc_error
from paddock.core.errors import TimedOut, Unavailable
from paddock.core.events.plugin_runtime import PluginCrashed, PluginMethodCalled, PluginMethodReturned
from paddock.runtime.lifecycle import PluginState

SILENT = "serve(do_it=lambda request: None, ask_it=lambda request: None)"
# Answers a request late, but only when it is asked to stop.
OBEDIENT = """
def stop(message):
    answer({"id": message["params"]["id"]}, {"stopped": True})
serve(do_it=lambda request: None, paddock_cancel=stop, ask_it=lambda request: {"alive": True})
"""
TWO = [{"name": name, "effects": ["read_only"]} for name in ("do.it", "ask.it")]
# Holds its calls, heeds no word about them, and answers so many of them as it is told to: like one that is busy with
# the first of them and has not read the others.
BUSY = """
held = []
def let_go(request):
    for _ in range(request["params"]["calls"]):
        answer(held.pop(0), {"done": True})
    return {}
serve(do_it=held.append, ask_it=held.append, let_go=let_go)
"""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


async def begun(stage: Stage, actor: Actor, count: int = 1) -> asyncio.Task[Any]:
    """A call that the plugin has received."""
    await actor.settled()
    call = asyncio.ensure_future(actor.call("do.it"))
    await stage.audience.event(PluginMethodCalled, count)
    return call


@pytest.mark.req("G-31", "method timeout")
async def test_a_call_that_is_not_answered_in_thirty_seconds_fails_and_the_plugin_is_killed_and_restarted(
    stage: Stage,
) -> None:
    actor = stage.actor(f"hello()\n{SILENT}")
    first = await actor.settled()
    with pytest.raises(TimedOut, match="within 30 s") as late:
        await actor.call("do.it")
    assert json_rpc_error(late.value)["code"] == -32603
    assert not (await stage.audience.event(PluginMethodReturned)).success
    await stage.audience.event(PluginCrashed)
    again = await actor.until(PluginState.RUNNING)
    assert again.pid != first.pid
    assert again.failures == 1


async def test_other_calls_under_way_fail_as_passing_trouble_when_one_of_them_hangs(stage: Stage) -> None:
    actor = stage.actor(
        f"hello()\n{SILENT}",
        methods=[
            {"name": "do.it", "effects": ["read_only"], "timeout_sec": 5},
            {"name": "ask.it", "effects": ["read_only"], "timeout_sec": 60},
        ],
    )
    await actor.settled()
    hung, other = await asyncio.gather(actor.call("do.it"), actor.call("ask.it"), return_exceptions=True)
    assert isinstance(hung, TimedOut)
    assert isinstance(other, Unavailable)
    assert other.retryable


async def test_a_plugin_that_can_be_cancelled_is_asked_to_stop_and_lives_on(stage: Stage) -> None:
    actor = stage.actor(f'hello(features=["cancel"])\n{OBEDIENT}', methods=TWO)
    call = await begun(stage, actor)
    with pytest.raises(TimedOut):
        await call
    assert await actor.call("ask.it") == {"alive": True}
    assert actor.status.failures == 0
    assert not stage.audience.of(PluginCrashed)


async def test_a_plugin_that_does_not_stop_when_asked_is_killed_five_seconds_later(stage: Stage) -> None:
    actor = stage.actor(f'hello(features=["cancel"])\n{SILENT}')
    call = await begun(stage, actor)
    with pytest.raises(TimedOut):
        await call
    assert actor.status.state is PluginState.RUNNING  # not yet: it was asked, and has five seconds
    await stage.audience.event(PluginCrashed)
    assert actor.status.failures == 1


async def test_a_caller_that_goes_away_costs_the_plugin_none_of_its_restarts(stage: Stage) -> None:
    actor = stage.actor(f"hello()\n{SILENT}")
    call = await begun(stage, actor)
    call.cancel()
    await stage.audience.event(PluginCrashed)  # it did not finish by itself within five seconds
    assert (await actor.until(PluginState.RUNNING)).failures == 0


async def test_a_cancelled_call_that_the_plugin_stops_ends_nothing(stage: Stage) -> None:
    actor = stage.actor(f'hello(features=["cancel"])\n{OBEDIENT}', methods=TWO)
    call = await begun(stage, actor)
    call.cancel()
    pid = actor.status.pid
    await asyncio.sleep(20)  # of the loop's own time: well past the five seconds
    assert await actor.call("ask.it") == {"alive": True}
    assert actor.status.pid == pid


def busy(stage: Stage, *, script: str = BUSY, ask_it: Mapping[str, Any] | None = None) -> Actor:
    """A plugin whose call `do.it` may take long; `ask_it` is what the manifest says of the other one."""
    read_only: dict[str, Any] = {"effects": ["read_only"], "timeout_sec": 600}
    methods = [{"name": name, **read_only} for name in ("do.it", "let.go")]
    methods.append({"name": "ask.it", **read_only, **(ask_it or {})})
    return stage.actor(f'hello(features=["cancel"])\n{script}', methods=methods, timing={"health_interval_sec": 300})


async def behind(stage: Stage, actor: Actor) -> asyncio.Task[Any]:
    """A call that was sent after another, and that the plugin may not have got to."""
    call = asyncio.ensure_future(actor.call("ask.it"))
    await stage.audience.event(PluginMethodCalled, 2)
    return call


async def test_a_cancelled_call_that_may_wait_for_its_turn_costs_the_calls_before_it_nothing(stage: Stage) -> None:
    actor = busy(stage)
    first = await begun(stage, actor)
    (await behind(stage, actor)).cancel()
    await asyncio.sleep(20)  # of the loop's own time: well past the five seconds

    await actor.call("let.go", calls=2)
    assert await first == {"done": True}
    await asyncio.sleep(20)
    assert not stage.audience.of(PluginCrashed)


async def test_a_call_that_times_out_before_its_turn_costs_the_calls_before_it_nothing(stage: Stage) -> None:
    actor = busy(stage, ask_it={"timeout_sec": 2})
    first = await begun(stage, actor)
    with pytest.raises(TimedOut, match="within 2 s"):
        await (await behind(stage, actor))
    await asyncio.sleep(20)

    await actor.call("let.go", calls=2)
    assert await first == {"done": True}
    assert not stage.audience.of(PluginCrashed)


async def test_a_cancelled_call_that_has_not_stopped_after_those_before_it_ends_the_plugin(stage: Stage) -> None:
    actor = busy(stage)
    first = await begun(stage, actor)
    (await behind(stage, actor)).cancel()
    await asyncio.sleep(20)
    assert not stage.audience.of(PluginCrashed)

    await actor.call("let.go", calls=1)
    assert await first == {"done": True}
    await stage.audience.event(PluginCrashed)
    assert (await actor.until(PluginState.RUNNING)).failures == 0


async def test_a_call_with_an_effect_that_is_cancelled_before_its_turn_ends_nothing_if_it_stops(stage: Stage) -> None:
    stops = BUSY.replace("serve(", "serve(paddock_cancel=lambda message: answer(held.pop(), {}), ")
    actor = busy(stage, script=stops, ask_it={"effects": ["external_send"]})
    first = await begun(stage, actor)
    (await behind(stage, actor)).cancel()
    await asyncio.sleep(20)

    await actor.call("let.go", calls=1)
    assert await first == {"done": True}
    assert not stage.audience.of(PluginCrashed)


async def test_a_call_with_an_effect_that_does_not_stop_is_ended_whatever_else_is_under_way(stage: Stage) -> None:
    actor = busy(stage, ask_it={"effects": ["external_send"]})
    first = await begun(stage, actor)
    (await behind(stage, actor)).cancel()
    with pytest.raises(Unavailable, match="another call was cancelled and did not stop, and this one ended with its"):
        await first
    await stage.audience.event(PluginCrashed)


async def test_whoever_loses_an_answer_to_the_call_of_another_is_told_so_and_to_call_again(stage: Stage) -> None:
    actor = busy(stage)
    first = await begun(stage, actor)
    second = await behind(stage, actor)
    first.cancel()
    with pytest.raises(Unavailable, match="another call was cancelled and did not stop, and this one ended") as lost:
        await second
    assert lost.value.retryable
    assert "repeat the call" in lost.value.hint
    assert (await actor.until(PluginState.CRASHED)).reason == "a cancelled call did not stop"


async def test_a_call_with_an_effect_is_ended_at_once_when_its_caller_goes_away(stage: Stage) -> None:
    actor = stage.actor(
        f'hello(features=["cancel"])\n{SILENT}', methods=[{"name": "do.it", "effects": ["external_send"]}]
    )
    call = await begun(stage, actor)
    loop = asyncio.get_running_loop()
    cancelled_at = loop.time()
    call.cancel()
    await stage.audience.event(PluginCrashed)
    assert loop.time() - cancelled_at < 50  # not a matter of grace; only of how fast this machine is


async def test_a_call_that_comes_while_the_process_is_being_killed_is_answered_by_the_next_one(stage: Stage) -> None:
    methods = [{"name": name, "effects": ["external_send"]} for name in ("do.it", "ask.it")]
    actor = stage.actor(
        'hello(features=["cancel"])\nserve(do_it=lambda request: None, ask_it=lambda request: {"alive": True})',
        methods=methods,
    )
    call = await begun(stage, actor)
    pid = actor.status.pid
    call.cancel()
    await asyncio.wait({call})
    assert actor.status.pid == pid, "its end is not known yet"
    assert await patiently(actor.call("ask.it")) == {"alive": True}
    assert actor.status.pid != pid


async def test_a_call_that_comes_while_a_hung_process_is_killed_is_refused_until_the_pause_before_the_next_is_over(
    stage: Stage,
) -> None:
    actor = stage.actor(
        'hello()\nserve(do_it=lambda request: None, ask_it=lambda request: {"alive": True})', methods=TWO
    )
    call = await begun(stage, actor)
    with pytest.raises(TimedOut):
        await patiently(call)
    with pytest.raises(Unavailable) as refused:
        await patiently(actor.call("ask.it"))
    assert refused.value.retryable
    await actor.until(PluginState.RUNNING)
    assert await patiently(actor.call("ask.it")) == {"alive": True}


async def test_an_effect_is_not_begun_while_a_cancelled_call_may_still_cost_the_process(stage: Stage) -> None:
    stuck = 'serve(do_it=lambda request: time.sleep(3600), ask_it=lambda request: {"alive": True})'
    actor = stage.actor(
        f'hello(features=["cancel"])\n{stuck}',
        methods=[{"name": "do.it", "effects": ["read_only"]}, {"name": "ask.it", "effects": ["external_send"]}],
    )
    call = await begun(stage, actor)
    call.cancel()
    await asyncio.wait({call})
    assert await patiently(actor.call("ask.it")) == {"alive": True}
    assert len(stage.audience.of(PluginCrashed)) == 1


async def test_progress_keeps_a_long_call_alive_beyond_its_timeout(stage: Stage) -> None:
    actor = stage.actor(
        """
hello(features=["events"])
def work(request):
    for number in range(12):
        time.sleep(0.2)     # two seconds of the host's hurried time, twelve times: longer than the five allowed
        send({"jsonrpc": "2.0", "method": "paddock.event",
              "params": {"id": request["id"], "event": {"type": "progress", "progress": number}}})
    return {"done": True}
serve(do_it=work)
""",
        methods=[{"name": "do.it", "effects": ["read_only"], "timeout_sec": 8}],
    )
    heard: list[Mapping[str, Any]] = []
    result = await patiently(
        stage.supervisor.call(actor.key, actor.spec("do.it"), {}, stage.context(), on_event=heard.append)
    )
    assert result == {"done": True}
    assert len(heard) == 12

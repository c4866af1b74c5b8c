"""Asking plugins whether they are well, and what follows when they are not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Actor, Stage
from tests.runtime.witness import fallen, runs_again, told

from paddock.core.events.plugin_runtime import PluginCrashed, PluginHealthFail
from paddock.runtime.lifecycle import PluginState

pytestmark = pytest.mark.usefixtures("bystander")

OFTEN = {"health_interval_sec": 5}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


def sick(stage: Stage, ping: str, **more: Any) -> Actor:
    """A plugin that meets a ping like this; `asked` counts them, and is what a call answers."""
    script = f"asked = [0]\ndef ping(request):\n    asked[0] += 1\n    {ping}\nhello()\n"
    return stage.actor(
        script + 'serve(ping=ping, do_it=lambda r: {"well": True} if r["params"].get("say") else {"asked": asked[0]})',
        timing=OFTEN,
        **more,
    )


@pytest.mark.req("G-21")
@pytest.mark.parametrize(
    "ping",
    [
        pytest.param("return None", id="silence"),
        pytest.param('refuse(request, -32603, "I feel faint")', id="an error"),
        pytest.param('return {"status": "poorly"}', id="another status"),
        pytest.param("return 7", id="no object"),
    ],
)
@pytest.mark.req("G-31", "health check failure")
@pytest.mark.req("G-29", "plugin.health_fail")
async def test_three_bad_answers_in_a_row_end_a_plugin_and_it_is_started_again(stage: Stage, ping: str) -> None:
    actor = sick(stage, ping)
    await actor.settled()
    with hurrying():
        await stage.audience.event(PluginHealthFail, count=3)
    status, crashed = await fallen(actor)
    assert status.reason == "it failed three health checks in a row"
    assert (status.failures, crashed.exit_code, crashed.signal) == (1, None, 15)
    assert told(stage, PluginHealthFail) == [
        PluginHealthFail(name="actor", consecutive_failures=count) for count in (1, 2, 3)
    ]
    await runs_again(actor)


@pytest.mark.req("G-21")
async def test_an_ill_plugin_that_does_not_heed_being_terminated_is_killed_two_seconds_later(stage: Stage) -> None:
    actor = sick(stage, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    await actor.settled()
    with hurrying():
        status, crashed = await fallen(actor)
    assert status.reason == "it failed three health checks in a row"
    assert crashed.signal == 9


@pytest.mark.req("G-21")
async def test_a_good_answer_forgives_the_bad_ones_before_it(stage: Stage) -> None:
    actor = sick(stage, 'return {"status": "ok"} if asked[0] % 3 == 0 else {"status": "poorly"}')
    await actor.settled()
    with hurrying(10):
        await stage.audience.event(PluginHealthFail, count=3)
    assert [failure.consecutive_failures for failure in told(stage, PluginHealthFail)] == [1, 2, 1]
    assert actor.status.state is PluginState.RUNNING
    assert not told(stage, PluginCrashed)


async def test_a_plugin_that_is_busy_with_a_call_is_not_taken_for_ill(stage: Stage) -> None:
    # One thread: while it works on the call it reads nothing. It goes on when a file appears.
    flag = stage.folder / "plugin-actor" / "go-on"
    work = f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)"
    actor = stage.actor(
        f'def work(request):\n    {work}\n    return {{"done": True}}\nhello()\nserve(do_it=work)',
        methods=[{"name": "do.it", "effects": ["read_only"], "timeout_sec": 300}],
        timing=OFTEN,
    )
    await actor.settled()
    call = asyncio.create_task(actor.call("do.it"))
    loop = asyncio.get_running_loop()
    with hurrying(50):
        passed = loop.create_future()
        loop.call_later(60, passed.set_result, None)  # time enough for six unanswered pings
        await passed
    flag.touch()
    assert await call == {"done": True}
    assert not told(stage, PluginHealthFail)
    assert actor.status.failures == 0


async def test_a_busy_plugin_that_answers_badly_is_ill_all_the_same(stage: Stage) -> None:
    actor = stage.actor(
        'hello()\nserve(do_it=lambda request: None, ping=lambda request: {"status": "poorly"})',
        methods=[{"name": "do.it", "effects": ["read_only"], "timeout_sec": 300}],
        timing=OFTEN,
    )
    await actor.settled()
    call = asyncio.create_task(actor.call("do.it"))
    with hurrying():
        status, _ = await fallen(actor)
    assert status.reason == "it failed three health checks in a row"
    await asyncio.wait([call])
    assert call.exception() is not None

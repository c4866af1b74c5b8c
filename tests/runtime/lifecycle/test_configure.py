"""New settings and projects for a plugin that runs: told at once, and told again when it starts anew."""

from __future__ import annotations

import os
import signal

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Actor, Stage
from tests.runtime.witness import UNASKED, next_life, told

from paddock.core.action import Action
from paddock.core.errors import NotFound, PluginError, TimedOut
from paddock.core.events.plugin_runtime import PluginCrashed
from paddock.runtime.lifecycle import PluginState

A_SETTING = {"type": "object", "properties": {"colour": {"type": "string"}}}

# Keeps everything the host tells it of settings and projects, from the handshake on.
KEEPING = """
heard = []
def keep(request):
    heard.append([request["method"], request["params"]])
    if request["params"].get("config", {}).get("colour") == "puce":
        refuse(request, -32004, "no such colour")
        return None
    return {"status": "ok"}
answer(read(), introduction())
read()
serve(config_update=keep, projects_activated=keep, projects_deactivated=keep, do_it=lambda request: {"heard": heard})
"""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


def keeping(stage: Stage) -> Actor:
    return stage.actor(KEEPING, config_schema=A_SETTING, timing=UNASKED)


async def test_a_plugin_that_runs_is_told_its_new_settings(stage: Stage) -> None:
    actor = keeping(stage)
    await actor.settled()
    await stage.supervisor.configure(actor.key, {"colour": "green"})
    assert (await actor.call("do.it"))["heard"] == [
        ["config.update", {"config": {}}],
        ["config.update", {"config": {"colour": "green"}}],
    ]


async def test_a_plugin_that_refuses_new_settings_lives_on_with_the_old(stage: Stage) -> None:
    actor = keeping(stage)
    await actor.settled()
    with pytest.raises(PluginError, match="no such colour") as refused:
        await stage.supervisor.configure(actor.key, {"colour": "puce"})
    assert refused.value.error_code == "config_invalid"
    assert actor.status.state is PluginState.RUNNING
    assert not told(stage, PluginCrashed)


async def test_projects_are_told_as_they_come_and_go_and_again_at_the_next_start(stage: Stage) -> None:
    actor = keeping(stage)
    pid = (await actor.settled()).pid
    assert pid is not None
    await stage.supervisor.activate_project(actor.key, "shop", {"colour": "red"})
    await stage.supervisor.activate_project(actor.key, "barn", {})
    await stage.supervisor.deactivate_project(actor.key, "barn")
    assert (await actor.call("do.it"))["heard"][1:] == [
        ["projects.activated", {"project": "shop", "config": {"colour": "red"}}],
        ["projects.activated", {"project": "barn", "config": {}}],
        ["projects.deactivated", {"project": "barn"}],
    ]
    os.kill(pid, signal.SIGKILL)
    await next_life(actor)
    assert (await actor.call("do.it"))["heard"] == [
        ["config.update", {"config": {}}],
        ["projects.activated", {"project": "shop", "config": {"colour": "red"}}],
    ]


async def test_a_plugin_that_declares_no_settings_need_not_know_of_them(stage: Stage) -> None:
    actor = stage.actor('hello()\nserve(config_update=lambda r: refuse(r, -32601, "what?"))', timing=UNASKED)
    await actor.settled()
    await stage.supervisor.configure(actor.key, {})
    assert actor.status.state is PluginState.RUNNING


async def test_a_plugin_that_says_nothing_to_new_settings_lives_on_and_that_is_told(stage: Stage) -> None:
    actor = stage.actor("hello()\nserve(config_update=lambda r: None)", timing=UNASKED)
    await actor.settled()
    with hurrying(), pytest.raises(TimedOut, match="within 10 s"):
        await stage.supervisor.configure(actor.key, {})
    assert actor.status.state is PluginState.RUNNING


async def test_a_plugin_that_does_not_run_is_told_when_it_does(stage: Stage) -> None:
    actor = stage.actor(KEEPING, start=False, config_schema=A_SETTING)
    await stage.supervisor.configure(actor.key, {"colour": "green"})
    stage.configs["actor"] = {"colour": "green"}
    assert (await actor.call("do.it"))["heard"] == [["config.update", {"config": {"colour": "green"}}]]


async def test_a_plugin_that_nobody_enabled_cannot_be_told_anything(stage: Stage) -> None:
    actor = keeping(stage)
    await stage.supervisor.disable(actor.key)
    with pytest.raises(NotFound, match="actor is not enabled") as unknown:
        await stage.supervisor.configure(actor.key, {})
    assert unknown.value.action == Action.of("plugin.enable", plugin="actor")

"""A plugin may take long to start. What was decided before is decided again then: much may be otherwise by now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, made_by
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, Host, open_host
from paddock.core.errors import Denied, NeedsApproval
from paddock.core.ids import DEFAULT_TENANT
from paddock.plugins.manage.enable import enable
from paddock.runtime.lifecycle import PluginState

SLOW = """
import os, time
from paddock_sdk import Plugin
plugin = Plugin({name!r}, {version!r}, capabilities_used=["read:fs:WORLD"])

@plugin.tool
def say(params, context):
    return {{"text": params["text"]}}

while os.path.exists("WORLD/wait"):
    time.sleep(0.01)
plugin.run()
"""
NO_MORE = '@id("no-more") @text("It was too loud.") forbid (principal, action, resource == Callable::"parrot.say");'


class Slow:
    """A plugin that starts when it is let."""

    def __init__(self, home: Home, folder: Path) -> None:
        self._home = home
        world = folder / "world"
        world.mkdir()
        self._wait = world / "wait"
        tool = {"name": "say", "description": "s", "effects": ["unknown"]}
        program = SLOW.replace("WORLD", str(world))
        home.install(program=program, capabilities=[f"read:fs:{world}"], tools=[tool])

    def forbid(self) -> None:
        folder = self._home.path / "policies"
        folder.mkdir(mode=0o700)
        (folder / "own.cedar").write_text(NO_MORE)
        (folder / "own.cedar").chmod(0o600)

    async def accepted(self, host: Host) -> str:
        """The yes of Ann's, which lasts."""
        with pytest.raises(NeedsApproval) as asked:
            await host.call("parrot.say", {"text": "x"}, context=made_by(ANN))
        held = asked.value.details
        await host.approvals.approve(held["approval"], ANN)
        await patiently((await host.calls.waiting.find(held["call_id"], DEFAULT_TENANT)).wait_ended())
        (standing,) = await host.approvals.list_standing(DEFAULT_TENANT)
        return standing["id"]

    @asynccontextmanager
    async def starting(self, host: Host) -> AsyncGenerator[asyncio.Task[Any], None]:
        """A call that waits for its plugin; at the end of the block the plugin starts."""
        await host.plugins.lifecycle.disable("parrot")
        self._home.changing(lambda plugins: enable(plugins, "parrot"))
        await host.plugins.lifecycle.reconcile()
        self._wait.touch()
        async with asyncio.timeout(30), aclosing(host.plugins.processes.follow_states()) as states:
            call = asyncio.ensure_future(host.call("parrot.say", {"text": "x"}, context=made_by(ANN)))
            async for status in states:
                if status.state is PluginState.SPAWNING:
                    break
        yield call
        self._wait.unlink()


@pytest.fixture
def slow(home: Home, tmp_path: Path) -> Slow:
    return Slow(home, tmp_path)


def opened(home: Home) -> Any:
    return open_host(Config(home=home.path, environ={}, start="nothing"))


async def test_a_yes_that_was_revoked_while_the_plugin_started_starts_nothing(home: Home, slow: Slow) -> None:
    async with opened(home) as host:
        lasting = await slow.accepted(host)
        async with slow.starting(host) as call:
            await host.approvals.revoke_standing(lasting, ANN)
        with pytest.raises(NeedsApproval):
            await patiently(call)


async def test_rules_that_came_in_force_while_the_plugin_started_hold_for_its_first_call(
    home: Home, slow: Slow
) -> None:
    async with opened(home) as host:
        await slow.accepted(host)
        async with slow.starting(host) as call:
            slow.forbid()
            await host.policy.active.reload_if_changed()
        with pytest.raises(Denied, match="It was too loud"):
            await patiently(call)

"""A plugin that fails again and again."""

from __future__ import annotations

import pytest
from anyio import to_thread
from tests.fixtures.hurried_loop import hurried
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.errors import NotFound
from paddock.plugins.manage.remove import uninstall
from paddock.runtime.lifecycle import PluginState


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


@pytest.mark.req("G-22", "five failures in ten minutes end them")
@pytest.mark.req("G-52", "enabling resets the count")
async def test_it_is_disabled_after_five_failures_and_starts_with_a_clean_slate_when_a_person_enables_it(
    home: Home,
) -> None:
    home.install("flapping", program="import sys; sys.exit('cannot start {name} {version}')")
    async with open_host(Config(home=home.path, environ={})) as host:
        async for status in host.plugins.processes.follow_states():
            if status.state is PluginState.FAILED:
                break
        assert status.failures == 5
        assert "cannot start flapping" in status.reason
        shown = await patiently(host.plugins.inventory.show("flapping"))
        assert shown["runtime"]["state"] == "failed"
        again = await patiently(host.plugins.lifecycle.enable("flapping"))
        assert again["state"] == PluginState.CRASHED
        assert again["failures"] == 1
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        assert [row["state"] for row in await host.plugins.inventory.list_all()] == ["enabled"]


@pytest.mark.slow
async def test_many_that_are_given_up_together_take_nothing_else_with_them(home: Home) -> None:
    names = [f"flapping-{number}" for number in range(12)]
    for name in names:
        home.install(name, program="import sys; sys.exit('cannot start {name} {version}')")
    home.install("parrot")
    async with open_host(Config(home=home.path, environ={})) as host:
        failed: set[str] = set()
        async for status in host.plugins.processes.follow_states():
            failed |= {status.key.plugin} if status.state is PluginState.FAILED else set()
            if len(failed) == len(names):
                break
        assert failed == set(names)
        assert (await patiently(host.call("parrot.say", {"text": "still here"})))["text"] == "still here"
        await patiently(host.plugins.lifecycle.reconcile())
        states = {row["name"]: row["state"] for row in await host.plugins.inventory.list_all()}
        assert states == {**dict.fromkeys(names, "disabled"), "parrot": "enabled"}


async def test_one_that_was_uninstalled_when_it_is_given_up_holds_up_nobody(home: Home) -> None:
    home.install("flapping", program="import sys; sys.exit('cannot start {name} {version}')")
    home.install("parrot")
    async with open_host(Config(home=home.path, environ={})) as host:
        async for status in host.plugins.processes.follow_states():
            if status.state is PluginState.CRASHED and status.failures == 4:
                await to_thread.run_sync(home.changing, lambda plugins: uninstall(plugins, "flapping"))
            if status.state is PluginState.FAILED:
                break
        await patiently(host.plugins.lifecycle.reconcile())
        assert [row["name"] for row in await host.plugins.inventory.list_all()] == ["parrot"]


@pytest.mark.slow
async def test_why_it_was_given_up_outlives_the_daemon_and_every_call_says_it(home: Home) -> None:
    home.install("flapping", program="import sys; sys.exit('cannot start {name} {version}')")
    async with open_host(Config(home=home.path, environ={})) as host:
        async for status in host.plugins.processes.follow_states():
            if status.state is PluginState.FAILED:
                break
        await patiently(host.plugins.lifecycle.reconcile())
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        (row,) = await host.plugins.inventory.list_all()
        assert row["given_up"].startswith("failed too often: it ended with exit status 1")
        assert (await host.plugins.inventory.show("flapping"))["given_up"] == row["given_up"]
        with pytest.raises(NotFound) as refused:
            await host.call("flapping.say", {"text": "hi"})
        assert (refused.value.error_code, refused.value.retryable) == ("plugin.not_enabled", False)
        assert refused.value.message == f"flapping is not enabled: it {row['given_up']}"
        with pytest.raises(NotFound, match="failed too often"):
            host.calls.registry.start("flapping", "say", {}, host.operator_context(None))
        await patiently(host.plugins.lifecycle.enable("flapping"))
        assert (await host.plugins.inventory.show("flapping"))["given_up"] == ""

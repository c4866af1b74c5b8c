"""A plugin that is enabled only if it starts: it is disabled again, unless somebody else decided about it meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from fixtures.ledger_entries import list_recent
from paddock import Config, Host, open_host
from paddock.plugins.manage.enable import disable, disable_not_started, enable_revocably
from paddock.plugins.store.rows import find_grant
from paddock.runtime.lifecycle import PluginState
from paddock.store.database import open_direct

CRASHES = "import sys; sys.exit('no feathers')"
HANGS = "import sys\nfor line in sys.stdin: pass"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


def installed(home: Home, program: str) -> None:
    home.install("shy", program=program)
    home.changing(lambda plugins: disable(plugins, "shy"))


def recorded_disabled(home: Home) -> list[str]:
    with open_direct(home.path / "data" / "paddock.db") as database:
        found = database.read(lambda tx: list_recent(tx, event_type="plugin.disabled"))
    return [entry.data["reason"] for entry in reversed(found)]


async def is_enabled(host: Host) -> bool:
    return (await host.plugins.inventory.show("shy"))["enabled"]


async def spawned(host: Host) -> None:
    async for status in host.plugins.processes.follow_states():
        if status.state is PluginState.SPAWNING:
            return


def enabling(host: Host) -> asyncio.Task[Any]:
    return asyncio.ensure_future(patiently(host.plugins.lifecycle.enable("shy", disable_unless_started=True)))


async def test_one_that_does_not_start_is_disabled_again_with_its_own_reason_and_says_why(home: Home) -> None:
    installed(home, CRASHES)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        answer = await enabling(host)
        assert (answer["enabled"], "no feathers" in answer["reason"]) == (False, True)
        assert not await is_enabled(host)
        assert not host.plugins.processes.statuses(), "it is not tried again"
        asked = await patiently(host.plugins.lifecycle.enable("shy"))
        assert (asked["enabled"], await is_enabled(host)) == (True, True), "without the option it stays enabled"
        assert (await enabling(host))["enabled"], "and one that was enabled before stays so"
    assert recorded_disabled(home) == ["operator", "did not start"]


async def test_one_that_another_person_enables_meanwhile_is_not_switched_off(home: Home) -> None:
    installed(home, HANGS)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        waiting = asyncio.ensure_future(spawned(host))
        first = enabling(host)
        await patiently(waiting)
        second = await patiently(host.plugins.lifecycle.enable("shy", start=False))
        assert second["enabled"]
        answer = await first
        assert (answer["state"] == PluginState.RUNNING, answer["enabled"]) == (False, True)
        assert await is_enabled(host)


async def test_one_whose_client_leaves_before_it_runs_is_disabled_again(home: Home) -> None:
    installed(home, HANGS)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        waiting = asyncio.ensure_future(spawned(host))
        first = enabling(host)
        await patiently(waiting)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not await is_enabled(host)
    assert recorded_disabled(home) == ["operator", "did not start"]


async def test_one_whose_client_leaves_once_it_runs_stays_enabled(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.install("shy")
    home.changing(lambda plugins: disable(plugins, "shy"))
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        lifecycle, runs = host.plugins.lifecycle, asyncio.Event()
        apply = lifecycle._apply_enabled

        async def apply_and_wait(*given: Any, **options: Any) -> Any:
            await apply(*given, **options)
            runs.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(lifecycle, "_apply_enabled", apply_and_wait)
        first = enabling(host)
        await patiently(runs.wait())
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await is_enabled(host)
    assert recorded_disabled(home) == ["operator"]


def test_one_that_a_daemon_gave_up_has_its_reason_again(home: Home) -> None:
    home.install("shy")

    def change(plugins: Any) -> None:
        disable(plugins, "shy", given_up="fell five times")
        _row, newly = enable_revocably(plugins, "shy")
        assert newly is not None
        assert not disable_not_started(plugins, newly)
        grant = plugins.database.read(lambda tx: find_grant(tx, plugins.tenant, "shy"))
        assert (grant.enabled, grant.given_up) == (False, "fell five times")

    home.changing(change)

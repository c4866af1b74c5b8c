"""A disk that fills up under a running host: nothing is done that cannot be recorded, and everything can be read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import Paddock
from tests.fixtures.paced_loop import hurrying, paced
from tests.fixtures.packages import write_file, write_json
from tests.fixtures.small_disks import fill, small_disk
from tests.runtime.stage import PRELUDE, patiently
from tests.runtime.witness import WELL

from paddock.core.errors import PaddockError
from paddock.host.host import Host
from paddock.host.wiring.open_host import Config, open_host
from paddock.runtime.lifecycle import PluginState


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2,400 KiB: little more than a home and one plugin need."""
    with small_disk(tmp_path / "disk", "2400k") as place:
        yield place


@pytest.fixture
def home(disk: Path, tmp_path: Path) -> Path:
    """A home on it, with one plugin installed and enabled."""
    source = tmp_path / "actor"
    manifest = {
        "paddock": 1,
        "name": "actor",
        "version": "1.0.0",
        "description": "An actor",
        "runtime": {"command": ["python3", "./main.py"]},
        "capabilities": [],
        "methods": [{"name": "do.it", "effects": ["read_only"]}],
    }
    write_json(source / "paddock.yaml", manifest)
    write_file(source / "main.py", f"NAME, METHODS = 'actor', ['do.it']\n{PRELUDE}\n{WELL}")
    paddock = Paddock(disk / "home")
    paddock("plugin", "install", source, "--yes")
    paddock("plugin", "enable", "actor")
    return paddock.home


async def until_refused(host: Host) -> PaddockError:
    """The error of the first call that is refused; the one that fills the last free page may still pass."""
    while True:
        try:
            await host.call("actor.do.it", {})
        except PaddockError as refusal:
            return refusal


async def until_answered(host: Host) -> Any:
    """The first result, of a caller that tries again every second."""
    while True:
        with contextlib.suppress(PaddockError):
            return await host.call("actor.do.it", {})
        await asyncio.sleep(1)


async def test_when_the_disk_is_full_calls_are_refused_plugins_are_listed_and_room_is_all_that_is_needed(
    home: Path, disk: Path
) -> None:
    async with open_host(Config(home=home)) as host:
        await host.plugins.processes.wait_settled()
        assert await host.call("actor.do.it", {}) == {"well": True}
        filler = fill(disk)
        refusal = await patiently(until_refused(host))
        assert refusal.error_code == "store.full"
        assert refusal.retryable
        listed: Any
        (listed,) = await host.plugins.inventory.list_all()
        assert (listed["name"], listed["runtime"]["state"]) == ("actor", "running")
        shown: Any = await host.plugins.inventory.show("actor")
        assert shown["runtime"]["failures"] == 0
        filler.unlink()
        with hurrying():
            assert await patiently(until_answered(host)) == {"well": True}


async def test_a_plugin_given_up_while_the_disk_is_full_is_disabled_once_there_is_room_and_the_host_lives_on(
    home: Path, disk: Path
) -> None:
    async with open_host(Config(home=home)) as host:
        await host.plugins.processes.wait_settled()
        states = host.plugins.processes.follow_states()
        filler = fill(disk)
        with hurrying():
            while (status := (await host.plugins.processes.wait_settled())[0]).state is not PluginState.FAILED:
                if status.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(status.pid, signal.SIGKILL)
                await patiently(anext(states))
        listed: Any
        (listed,) = await host.plugins.inventory.list_all()
        assert (listed["state"], listed["runtime"]["state"]) == ("enabled", "failed")  # not written down yet
        filler.unlink()
        await host.plugins.lifecycle.reconcile()
        assert (await host.plugins.inventory.list_all())[0]["state"] == "disabled"
        shown: Any = await host.plugins.inventory.show("actor")
        assert shown["runtime"]["failures"] == 5

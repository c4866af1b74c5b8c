"""What an uninstalled plugin kept is dropped by the running host itself, whether or not somebody tells it to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.host.conftest import Home

from fixtures.daemons import eventually
from paddock import Config, open_host
from paddock.core.errors import Busy
from paddock.host.plugins import uninstall as departures
from paddock.plugins.manage.remove import uninstall
from paddock.plugins.store import purge

EMBEDDED = {"paddock": 1, "name": "parrot", "version": "1.0.0", "description": "Of the application", "capabilities": []}


def kept(home: Home) -> Path:
    """The folder of a plugin, with something in it."""
    folder = home.path / "data" / "files" / "parrot"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "diary").write_text("mine")
    return folder


async def test_a_host_that_nobody_tells_drops_what_is_leaving(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "RECONCILE_INTERVAL_S", 0.05)
    home.install()
    folder = kept(home)
    async with open_host(Config(home=home.path, environ={})) as host:
        await host.call("parrot.say", {"text": "hello"})
        home.changing(lambda plugins: uninstall(plugins, "parrot"))
        await asyncio.to_thread(eventually, lambda: not folder.exists(), "its folder stays")
        assert not host.plugins.processes.statuses()


async def test_what_cannot_be_dropped_stays_marked_and_keeps_its_name_until_it_can(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.install()
    kept(home)

    def stuck(*_: object) -> None:
        raise OSError("the disk is stuck")

    async with open_host(Config(home=home.path, environ={})) as host:
        home.changing(lambda plugins: uninstall(plugins, "parrot"))
        with monkeypatch.context() as trouble:
            trouble.setattr(purge, "delete_plugin_files", stuck)
            await host.plugins.lifecycle.reconcile()
            with pytest.raises(Busy, match="still leaving"):
                home.install()
            with pytest.raises(Busy, match="still leaving"):
                await host.embed(EMBEDDED, {})
        await host.plugins.lifecycle.reconcile()
        home.install()

"""A host that was taken for dead while it lives: what its plugins were at is not theirs any more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.gate.test_governed_calls import ANN, made_by, tool
from tests.host.conftest import Home
from tests.host.effects.test_fences import taken_for_dead

from fixtures.daemons import eventually
from paddock import Config, open_host
from paddock.core.errors import Conflict, HostError, Unavailable
from paddock.host.host import Host
from paddock.queue import node
from paddock.store.database import open_direct

PROGRAM = """
import time
from pathlib import Path
from paddock_sdk import Plugin

plugin = Plugin({name!r}, {version!r})
OUTSIDE = Path(OUTSIDE_IS)

@plugin.tool
def act(params, context):
    return wait(params, context)

@plugin.tool
def wait(params, context):
    (OUTSIDE / "begun").touch()
    while not (OUTSIDE / "go").exists():
        time.sleep(0.01)
    return {{"went": True}}

plugin.run()
"""
TOOLS = [tool("act", "db_write"), tool("wait", "read_only")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return installed(Home(tmp_path), tmp_path)


def installed(home: Home, tmp_path: Path) -> Home:
    for name in ("actor", "reader"):
        outside = tmp_path / name
        outside.mkdir()
        program = PROGRAM.replace("OUTSIDE_IS", repr(str(outside)))
        home.install(name, program=program, tools=TOOLS, capabilities=[f"write:fs:{outside}"])
    return home


def pids(host: Host) -> dict[str, int | None]:
    return {status.key.plugin: status.pid for status in host.plugins.processes.statuses()}


async def test_a_process_that_is_at_an_effect_is_ended_when_others_took_its_host_for_dead_and_no_other(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(name: str) -> bool:
        return (tmp_path / name / "begun").exists()

    monkeypatch.setattr(node, "HEARTBEAT_INTERVAL_S", 0.05)
    async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(60):

        def made(name: str, **key: Any) -> asyncio.Future[Any]:
            return asyncio.ensure_future(host.call(name, {}, context=made_by(ANN), **key))

        acts, reads = made("actor.act", idempotency_key="k1"), made("reader.wait")
        await asyncio.to_thread(eventually, lambda: begun("actor") and begun("reader"), "both are at work")
        before = pids(host)
        with open_direct(home.path / "data" / "paddock.db") as database:
            database.write(taken_for_dead)
        with pytest.raises(Conflict) as stale:
            await acts
        at_it = Path("/proc", str(before["actor"]))
        await asyncio.to_thread(eventually, lambda: not at_it.exists(), "the process is ended")
        await asyncio.to_thread(eventually, lambda: pids(host)["actor"] not in (None, before["actor"]), "and replaced")
        (tmp_path / "reader" / "go").touch()
        assert await reads == {"went": True}
        assert pids(host)["reader"] == before["reader"]
        (tmp_path / "actor" / "go").touch()
        with pytest.raises(Conflict) as doubt:
            await made("actor.act", idempotency_key="k1")
        assert await made("actor.act", idempotency_key="k2") == {"went": True}, "and it goes on under another epoch"
    assert (stale.value.error_code, doubt.value.error_code) == ("effect.stale", "effect.in_doubt")


async def test_a_host_that_is_cut_off_ends_its_effects_and_begins_none_until_it_can_renew_its_lease(
    tmp_path: Path, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.environment["PADDOCK_STORE_URL"] = postgres_address
    installed(home, tmp_path)
    (tmp_path / "reader" / "go").touch()
    monkeypatch.setattr(node, "HEARTBEAT_INTERVAL_S", 0.05)
    monkeypatch.setattr(node, "LEASE_S", 1.0)
    environ = {"PADDOCK_STORE_URL": postgres_address}
    async with open_host(Config(home=home.path, environ=environ)) as host, asyncio.timeout(60):

        def made(name: str, **key: Any) -> asyncio.Future[Any]:
            return asyncio.ensure_future(host.call(name, {}, context=made_by(ANN), **key))

        acts = made("actor.act", idempotency_key="k1")
        await asyncio.to_thread(eventually, lambda: (tmp_path / "actor" / "begun").exists(), "it is at work")
        at_it = Path("/proc", str(pids(host)["actor"]))
        with psycopg.connect(postgres_address) as other:
            other.execute("SELECT * FROM procrastinate_workers FOR UPDATE")  # no beat comes through, nor back
            with pytest.raises(Unavailable):
                await acts
            await asyncio.to_thread(eventually, lambda: not at_it.exists(), "the process is ended")
            with pytest.raises(HostError) as refused:
                await made("reader.act")
            assert await made("reader.wait") == {"went": True}, "what only reads goes on"
        (tmp_path / "actor" / "go").touch()

        async def goes_on() -> bool:
            try:
                return await made("reader.act", idempotency_key="k2") == {"went": True}
            except HostError:
                return False

        while not await goes_on():
            pass
    assert refused.value.error_code == "node.lost"

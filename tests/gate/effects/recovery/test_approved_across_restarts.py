"""A call has its yes, and its host goes down before it could start: the key stays with it until the next makes it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, made_by, tool
from tests.host.conftest import Home

from fixtures.daemons import eventually
from paddock import Config, open_host
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Busy, Conflict, NeedsApproval
from paddock.core.ids import DEFAULT_TENANT
from paddock.host import host as a_host
from paddock.host.host import Host
from paddock.host.wiring.gate import build_approvals
from paddock.runtime.lifecycle import PluginState
from paddock.store.database import open_database

# It cannot be called before there is a file `go`; what it does is a line in another one.
PROGRAM = """
import time
from pathlib import Path
from paddock_sdk import Plugin

plugin = Plugin({name!r}, {version!r})
OUTSIDE = Path(OUTSIDE_IS)

@plugin.tool
def send(params, context):
    with open(OUTSIDE / "sent", "a") as sent:
        sent.write(context.idempotency_key + "\\n")
    return {{"sent": True}}

while not (OUTSIDE / "go").exists():
    time.sleep(0.01)
plugin.run()
"""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    return place


@pytest.fixture
def home(tmp_path: Path, outside: Path) -> Home:
    home = Home(tmp_path)
    program = PROGRAM.replace("OUTSIDE_IS", repr(str(outside)))
    tools = [tool("send", "external_send")]
    home.install("mail", program=program, tools=tools, capabilities=[f"write:fs:{outside}"])
    return home


async def send(host: Host) -> Any:
    return await host.call("mail.send", {}, context=made_by(ANN), idempotency_key="k1")


async def approve_here(host: Host, approval: str) -> None:
    """The yes comes while the host runs, and the call waits for its plugin when that goes down."""

    await host.approvals.approve(approval, ANN)
    waits = PluginState.SPAWNING
    await asyncio.to_thread(
        eventually, lambda: host.plugins.processes.statuses()[0].state is waits, "the call waits for its plugin"
    )


async def approve_elsewhere(home: Home, approval: str) -> None:
    """It comes while none runs."""
    async with open_database(home.path / "data" / "paddock.db") as database:
        await build_approvals(database, SystemClock(), SystemRandom()).approve(DEFAULT_TENANT, approval, ANN)


@pytest.mark.parametrize("while_it_runs", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_the_key_of_a_call_that_has_its_yes_is_nobody_elses_when_its_host_goes_down(
    home: Home, outside: Path, monkeypatch: pytest.MonkeyPatch, while_it_runs: bool
) -> None:
    monkeypatch.setattr(a_host, "DRAIN_TIMEOUT_S", 0.0)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        with pytest.raises(NeedsApproval) as waits:
            await send(host)
        if while_it_runs:
            await approve_here(host, waits.value.details["approval"])
    if not while_it_runs:
        await approve_elsewhere(home, waits.value.details["approval"])

    async with open_host(Config(home=home.path, environ={}, role="command", start="nothing")) as host:
        with pytest.raises(Busy) as meanwhile:
            await send(host)
    assert meanwhile.value.error_code == "effect.underway", "it is about to be made, and nobody asks a second time"

    (outside / "go").touch()
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(30):
        assert await send(host) == {"sent": True}
        done = await host.approvals.find(DEFAULT_TENANT, waits.value.details["approval"])
        assert (done["state"], done["call_id"]) == ("consumed", waits.value.details["call_id"])
    assert (outside / "sent").read_text().split() == ["k1"]


async def test_who_cancels_a_call_that_has_its_yes_frees_its_key(home: Home) -> None:
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(30):
        with pytest.raises(NeedsApproval) as first:
            await send(host)
        await approve_here(host, first.value.details["approval"])
        live = await host.calls.waiting.find(first.value.details["call_id"], DEFAULT_TENANT)
        live.cancel()
        await live.wait_ended()
        with pytest.raises(NeedsApproval) as second:
            await send(host)
        with pytest.raises(Conflict):
            await host.approvals.approve(first.value.details["approval"], ANN)
    assert second.value.details["approval"] != first.value.details["approval"]

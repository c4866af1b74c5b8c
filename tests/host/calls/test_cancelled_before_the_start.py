"""Between a person's yes and the start of the call lies the start of its plugin, and what happens meanwhile counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, TO, made_by, tool, waiting_count
from tests.host.conftest import Home

from paddock import Config, open_host
from paddock.core.errors import NeedsApproval
from paddock.core.ids import DEFAULT_TENANT
from paddock.gate.calls.handle import CallHandle
from paddock.host.host import Host

NEVER_READY = "import time\nwhile True: time.sleep(60)\n"


@pytest.fixture
def slow(home: Home) -> Config:
    """A home with a plugin that sends, and takes for ever to start."""
    home.install("mail", program=NEVER_READY, tools=[tool("send", "external_send", input_schema=TO)])
    return Config(home=home.path, environ={}, start="nothing")


async def approved(host: Host) -> tuple[CallHandle, str]:
    """A call that has its yes, and waits for its plugin to start."""
    with pytest.raises(NeedsApproval) as waits:
        await host.call("mail.send", {"to": "bob"}, context=made_by(ANN))
    await host.approvals.approve(waits.value.details["approval"], ANN)
    live = host.calls.registry.find(waits.value.details["call_id"], DEFAULT_TENANT)
    assert live.status == "running"
    return live, waits.value.details["approval"]


async def state_of(host: Host, approval: str) -> Any:
    return (await host.approvals.find("default", approval))["state"]


async def test_a_call_that_is_cancelled_between_its_yes_and_its_start_is_never_made(slow: Config) -> None:
    async with open_host(slow) as host:
        live, approval = await approved(host)
        await host.approvals.cancel(live)
        assert await state_of(host, approval) == "withdrawn"
        async with asyncio.timeout(30):
            await live.wait_ended()
        assert live.status == "cancelled"
    async with open_host(slow) as host:
        assert await waiting_count(host) == host.calls.registry.running_count == 0


async def test_whoever_hangs_up_before_the_start_does_not_want_the_call_after_a_restart_either(slow: Config) -> None:
    async with open_host(slow) as host:
        live, approval = await approved(host)
        live.cancel()  # as a server does for a client that is gone
        async with asyncio.timeout(30):
            await live.wait_ended()
        assert await state_of(host, approval) == "withdrawn"


async def test_a_host_that_goes_down_before_the_start_leaves_the_yes_to_the_next(slow: Config) -> None:
    async with open_host(slow) as host:
        live, approval = await approved(host)
        await host.calls.registry.drain(0.01)
        async with asyncio.timeout(30):
            await live.wait_ended()
        assert (live.status, await state_of(host, approval)) == ("cancelled", "approved")
    async with open_host(slow) as host:
        assert host.calls.registry.find(live.id, DEFAULT_TENANT).status == "running"
        await host.calls.registry.drain(0.01)

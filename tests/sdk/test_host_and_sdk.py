"""The host's end of a wire and the SDK's, together: what one says the other understands."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sdk.conversation import PATIENCE, ROOT

from paddock.core.call import CallContext, Principal
from paddock.core.clock import SystemClock
from paddock.core.ids import DEFAULT_TENANT, Digest, PluginName, PrincipalId, RequestId
from paddock.manifest.read import read_package
from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.runtime.calls import CallPlan, plan_call
from paddock.runtime.connection import PluginConnection
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.exit_reason import KillReason
from paddock.runtime.protocols.native.adapter import NativeAdapter

FOLDER = ROOT / "examples" / "slow-count"
ME = CallContext(Principal(PrincipalId("me")), RequestId("r1"))


def planned(tool: str, idle: float) -> CallPlan:
    manifest = read_package(FOLDER).single()
    spec = next(spec for spec in manifest.callables if spec.name == tool)
    return replace(plan_call(manifest, spec, 30.0), idle_timeout_s=idle)


class Nobody:
    """The rest of the host, which these tests do not need."""

    def publish(self, event: object) -> None: ...

    async def answer(self, asking: object, method: str, params: Mapping[str, Any]) -> Any: ...


def started() -> tuple[subprocess.Popen[bytes], int, int]:
    """The plugin's process, what it is heard with and what it is told with."""
    theirs, ours = os.pipe()
    back, out = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "main.py"],
        cwd=FOLDER,
        stdin=theirs,
        stdout=out,
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    os.close(theirs)
    os.close(out)
    return process, back, ours


class Owner:
    """Owns the process, and notes why it would have to kill it."""

    def __init__(self) -> None:
        self.fatal: list[KillReason] = []

    def on_fatal(self, reason: KillReason) -> None:
        self.fatal.append(reason)

    def on_log_line(self, line: str) -> None: ...
    def on_notification(self, method: str, params: Mapping[str, Any]) -> None: ...
    def on_list_changed(self) -> None: ...


@pytest.fixture
async def wire() -> AsyncGenerator[tuple[PluginConnection, list[KillReason]], None]:
    """slow-count, greeted by the host as after any start."""
    manifest = read_package(FOLDER).single()
    granted = manifest.capabilities
    deployment = Deployment(
        InstanceKey(DEFAULT_TENANT, PluginName("slow-count"), Digest("sha256:0")), manifest, granted
    )
    owner = Owner()
    wire = PluginConnection(
        deployment,
        NativeAdapter(deployment, Nobody().answer),
        publish=Nobody(),
        clock=SystemClock(),
        observer=owner,
    )
    process, back, ours = started()
    transport = await open_pipe_transport(back, ours, wire.peer)
    wire.attach(transport)
    transport.start()
    try:
        await wire.adapter.handshake(wire)
        wire.mark_ready()
        yield wire, owner.fatal
    finally:
        wire.close("the test is over")
        await asyncio.to_thread(process.wait, PATIENCE)
    assert process.returncode == 0


async def test_every_step_reaches_whoever_waits_and_keeps_a_call_alive_beyond_its_idle_time(
    wire: tuple[PluginConnection, list[KillReason]],
) -> None:
    conversation, fatal = wire
    told: list[Any] = []

    # Thirty steps of 50 ms are longer than one second of patience; no single one is.
    result = await conversation.call(planned("count", 1.0), {"to": 30, "pause_ms": 50}, ME, on_event=told.append)

    assert result == {"counted": 30}
    assert [event["progress"] for event in told] == list(range(1, 31))
    assert fatal == []


@pytest.mark.parametrize("tool", ["count", "squares"])
async def test_a_call_that_its_caller_gave_up_stops_and_the_process_lives_on(
    wire: tuple[PluginConnection, list[KillReason]], tool: str
) -> None:
    conversation, fatal = wire
    begun = asyncio.Event()
    endless = {"to": 1000, "pause_ms": 20}
    call = asyncio.ensure_future(
        conversation.call(planned(tool, PATIENCE), endless, ME, on_event=lambda _event: begun.set())
    )
    async with asyncio.timeout(PATIENCE):
        await begun.wait()

        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        # The next call is answered because the last one has stopped: the plugin does one thing at a time.
        after = await conversation.call(planned("count", 5.0), {"to": 1, "pause_ms": 0}, ME)
    assert (after, fatal) == ({"counted": 1}, [])

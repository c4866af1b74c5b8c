"""Looks at the machine: remembered for a while, and a look that hangs holds nobody up twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from paddock.cage.cgroups.discovery import FALLBACK_MECHANISMS
from paddock.cage.errors import CageUnavailable
from paddock.core.clock import SystemClock
from paddock.host.repairs import host_probe as a_machine
from paddock.host.repairs.host_probe import HostProbe


async def test_what_was_seen_is_remembered_and_looked_at_again_when_asked(tmp_path: Path) -> None:
    looks: list[int] = []

    async def limits() -> dict[str, str]:
        looks.append(1)
        return {"memory": "cgroup v2", "cpu": FALLBACK_MECHANISMS["cpu"]}

    async with anyio.create_task_group() as tasks:
        machine = HostProbe(tmp_path, limits, tasks, SystemClock())
        seen = await machine.latest()
        assert seen is not None
        assert seen.limits_without_cgroup == ("cpu",)
        assert seen.free
        assert await machine.latest() is seen
        assert await machine.latest(anew=True) is not seen
    assert len(looks) == 2


async def test_a_look_that_hangs_is_waited_for_once_and_then_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a_machine, "PROBE_WAIT_S", 0.05)
    answer = asyncio.Event()

    async def limits() -> dict[str, str]:
        await answer.wait()
        raise CageUnavailable("there is no bubblewrap", hint="apt install bubblewrap")

    async with anyio.create_task_group() as tasks:
        machine = HostProbe(tmp_path, limits, tasks, SystemClock())
        assert await machine.latest() is None
        monkeypatch.setattr(a_machine, "PROBE_WAIT_S", 60.0)
        async with asyncio.timeout(5):
            assert await machine.latest() is None
        answer.set()
        seen = await machine.latest(anew=True)
        assert seen is not None
        assert (seen.cage_error, seen.cage_error_hint) == ("there is no bubblewrap", "apt install bubblewrap")

"""Looks at the machine: remembered for a while, and a look that hangs holds nobody up twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from paddock.cage.launcher import CageUnavailable
from paddock.cage.limits.places import WITHOUT_GROUPS
from paddock.core.clock import SystemClock
from paddock.host.repairs import machine as a_machine
from paddock.host.repairs.machine import Machine


async def test_what_was_seen_is_remembered_and_looked_at_again_when_asked(tmp_path: Path) -> None:
    looks: list[int] = []

    async def limits() -> dict[str, str]:
        looks.append(1)
        return {"memory": "cgroup v2", "cpu": WITHOUT_GROUPS["cpu"]}

    async with anyio.create_task_group() as tasks:
        machine = Machine(tmp_path, limits, tasks, SystemClock())
        seen = await machine.seen()
        assert seen is not None
        assert seen.without_groups == ("cpu",)
        assert seen.free
        assert await machine.seen() is seen
        assert await machine.seen(anew=True) is not seen
    assert len(looks) == 2


async def test_a_look_that_hangs_is_waited_for_once_and_then_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a_machine, "PATIENCE", 0.05)
    answer = asyncio.Event()

    async def limits() -> dict[str, str]:
        await answer.wait()
        raise CageUnavailable("there is no bubblewrap", hint="apt install bubblewrap")

    async with anyio.create_task_group() as tasks:
        machine = Machine(tmp_path, limits, tasks, SystemClock())
        assert await machine.seen() is None
        monkeypatch.setattr(a_machine, "PATIENCE", 60.0)
        async with asyncio.timeout(5):
            assert await machine.seen() is None
        answer.set()
        seen = await machine.seen(anew=True)
        assert seen is not None
        assert (seen.no_cage, seen.no_cage_hint) == ("there is no bubblewrap", "apt install bubblewrap")

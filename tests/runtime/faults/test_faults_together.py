"""What befalls many plugins at once: all of them crash, their warden is killed, or the daemon itself is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Actor, Stage
from tests.runtime.witness import UNASKED, WELL, Bystander, cage_mates, fallen, gone, on_call, told

from paddock.cage.linux import child_pids, subtree_pids
from paddock.core.errors import Unavailable
from paddock.core.events.plugin_runtime import PluginCrashed, PluginSpawned
from paddock.runtime.deployment import PluginStatus
from paddock.runtime.lifecycle import PluginState

ROOT = Path(__file__).parents[3]
MANY = 50


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


async def test_fifty_plugins_that_crash_together_all_come_back_and_a_healthy_one_answers_all_the_while(
    stage: Stage, bystander: Bystander
) -> None:
    crowd = [stage.actor(WELL, f"crowd-{number}", timing=UNASKED) for number in range(MANY)]
    for status in await asyncio.gather(*(actor.until(PluginState.RUNNING) for actor in crowd)):
        assert status.pid is not None
        os.kill(status.pid, signal.SIGKILL)
    answered = 0
    risen = asyncio.gather(*(back(actor) for actor in crowd))
    while not risen.done():
        async with asyncio.timeout(5):
            await bystander.call()
        answered += 1
        await asyncio.wait([risen], timeout=0.05)
    assert answered >= 10
    for status, crashed in risen.result():
        assert (status.state, status.failures) == (PluginState.RUNNING, 1)
        assert crashed == PluginCrashed(name=status.key.plugin, exit_code=None, signal=9, last_stderr=())
    assert not stage.audience.lost


async def back(actor: Actor) -> tuple[PluginStatus, PluginCrashed]:
    """How it is doing when it runs again, and what was told of its fall."""
    _, crashed = await fallen(actor)
    return await actor.until(PluginState.RUNNING), crashed


async def test_when_the_warden_is_killed_every_plugin_falls_and_comes_back_under_a_new_one(stage: Stage) -> None:
    actors = [stage.actor(on_call("time.sleep(600)"), name) for name in ("one", "two")]
    before = [(await actor.settled()).pid or 0 for actor in actors]
    everything = {mate for pid in before for mate in cage_mates(pid)}
    call = asyncio.create_task(actors[0].call("do.it"))
    (warden,) = [child for child in child_pids(os.getpid()) if before[0] in subtree_pids(child)]
    os.kill(warden, signal.SIGKILL)
    for actor in actors:
        status, _ = await fallen(actor)
        assert status.failures == 1
    with pytest.raises(Unavailable):
        await call
    assert gone(everything, within=2)
    for actor, pid in zip(actors, before, strict=True):
        if actor.status.state is PluginState.CRASHED:
            with hurrying():
                await actor.until(PluginState.SPAWNING)
        assert (await actor.settled()).pid not in (None, pid)
        assert await actor.call("do.it", say="well") == {"well": True}
        assert len(told(stage, PluginSpawned, actor.key.plugin)) == 2


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    tmp_path.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.stage_program", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}:{ROOT}"},
    )
    with process:
        yield process
        process.kill()


def test_a_daemon_that_is_killed_leaves_no_process_behind(daemon: subprocess.Popen[str]) -> None:
    assert daemon.stdout is not None
    pids = [int(pid) for pid in daemon.stdout.readline().split()]
    assert len(pids) == 2
    (warden,) = child_pids(daemon.pid)
    everything = {warden}.union(*(cage_mates(pid) for pid in pids))
    assert len(everything) >= 4
    daemon.kill()
    assert gone(everything, within=2)

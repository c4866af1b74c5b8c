"""The end of plugins: asked first, then told, then killed; in the reverse of the order in which they started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.runtime.stage import Stage, open_stage
from tests.runtime.witness import UNASKED, WELL, cage_mates, gone, on_call, told

from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import CagedProcess, WardenClient, open_warden
from paddock.core.errors import NotFound, Unavailable
from paddock.core.events.contracts import PluginStopped
from paddock.core.events.plugin_runtime import PluginCrashed, PluginExited, PluginKilled, PluginSpawned
from paddock.runtime.lifecycle import PluginState

STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
DEAF = "hello()\nwhile True: read()"  # reads the request to shut down, and does nothing about it

SLOW_TO_LEAVE = 'import atexit\natexit.register(lambda: (os.write(2, b"leaving\\n"), time.sleep(0.5)))\n'


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.mark.req("G-23", "asks")
@pytest.mark.req("G-31", "graceful shutdown")
@pytest.mark.req("G-29", "plugin.stopped")
@pytest.mark.req("G-29", "plugin.exited")
@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_ends_when_it_is_asked_has_stopped_and_its_next_call_starts_it(stage: Stage) -> None:
    actor = stage.actor(WELL)
    await actor.settled()
    await stage.supervisor.stop(actor.key)
    assert actor.status.state is PluginState.STOPPED
    assert told(stage, PluginExited) == [PluginExited(name="actor", exit_code=0)]
    assert told(stage, PluginStopped) == [PluginStopped(name="actor")]
    assert not told(stage, PluginCrashed)
    assert await actor.call("do.it") == {"well": True}
    assert len(told(stage, PluginSpawned)) == 2


@pytest.mark.req("G-23", "terminates")
@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_does_not_end_when_asked_is_terminated_after_its_own_time(stage: Stage) -> None:
    note = 'def leave(*_):\n    os.write(2, b"terminated\\n"); os._exit(7)\nsignal.signal(signal.SIGTERM, leave)\n'
    actor = stage.actor(note + DEAF, timing=UNASKED | {"shutdown_sec": 1})
    await actor.settled()
    began = asyncio.get_running_loop().time()
    await stage.supervisor.stop(actor.key)
    assert asyncio.get_running_loop().time() - began >= 1
    assert "terminated" in stage.audience.lines
    assert told(stage, PluginExited) == [PluginExited(name="actor", exit_code=7)]
    assert told(stage, PluginStopped) == [PluginStopped(name="actor")]
    assert not told(stage, PluginKilled)


@pytest.mark.req("G-23", "kills")
@pytest.mark.req("G-31", "forced kill")
@pytest.mark.req("G-29", "plugin.killed")
@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_ignores_being_asked_and_being_terminated_is_killed(stage: Stage) -> None:
    actor = stage.actor(STUBBORN + DEAF, timing=UNASKED)
    pid = (await actor.settled()).pid
    assert pid is not None
    everything = cage_mates(pid)
    began = asyncio.get_running_loop().time()
    with hurrying(10):
        await stage.supervisor.stop(actor.key)
    assert asyncio.get_running_loop().time() - began >= 7  # five to end by itself, two after SIGTERM
    assert actor.status.state is PluginState.STOPPED
    assert told(stage, PluginKilled) == [PluginKilled(name="actor")]
    assert not told(stage, PluginStopped)
    assert gone(everything, within=1)


@pytest.mark.usefixtures("bystander")
async def test_a_plugin_that_is_stopped_in_its_handshake_is_asked_like_any_other(stage: Stage) -> None:
    actor = stage.actor("while True:\n    if read()['method'] == 'shutdown': sys.exit(0)")
    await stage.audience.until(lambda: told(stage, PluginSpawned))
    await stage.supervisor.stop(actor.key)
    assert told(stage, PluginStopped) == [PluginStopped(name="actor")]
    assert actor.status.state is PluginState.STOPPED


@pytest.mark.usefixtures("bystander")
async def test_calls_under_way_are_answered_before_their_plugin_is_asked_to_end(stage: Stage) -> None:
    actor = stage.actor(on_call('os.write(2, b"began\\n"); time.sleep(0.3); return {"finished": True}'))
    call = asyncio.create_task(actor.call("do.it"))
    await stage.audience.until(lambda: "began" in stage.audience.lines)
    await stage.supervisor.stop(actor.key)
    assert await call == {"finished": True}
    assert told(stage, PluginStopped)


class Noting:
    """A warden that notes which plugin's process is sent a signal."""

    def __init__(self, warden: WardenClient) -> None:
        self._warden = warden
        self.signalled: list[str] = []

    async def launch(self, spec: CageSpec) -> CagedProcess:
        process = await self._warden.launch(spec)
        send = process.signal

        def signal(number: int) -> None:
            self.signalled.append(spec.plugin)
            send(number)

        process.signal = signal
        return process


async def test_plugins_start_in_order_and_end_in_reverse(folder: Path) -> None:
    names = ["first", "second", "third"]
    async with open_warden() as warden, open_stage(folder, launch_caged=(noting := Noting(warden)).launch) as stage:
        for actor in [stage.actor(DEAF, name, timing=UNASKED | {"shutdown_sec": 1}) for name in names]:
            await actor.settled()
        assert [status.key.plugin for status in stage.supervisor.statuses()] == names
    assert {event.name for event in stage.audience.of(PluginSpawned)} == set(names)
    assert noting.signalled == names[::-1]


async def test_one_that_is_slow_to_end_holds_up_no_other_and_is_waited_for_no_longer_than_its_time(
    folder: Path,
) -> None:
    loop = asyncio.get_running_loop()
    async with open_stage(folder) as stage:
        slow = stage.actor(STUBBORN + DEAF, "slow", timing=UNASKED)
        stubborn = stage.actor(STUBBORN + DEAF, "stubborn", timing=UNASKED)
        quick = stage.actor(WELL, "quick")
        for actor in (slow, stubborn, quick):
            await actor.settled()
        pids = {actor.status.pid or 0 for actor in (slow, stubborn, quick)}
        with hurrying(3):
            began = loop.time()
            await stage.supervisor.close()
            took = loop.time() - began
    ends = [event for event in stage.audience.events if isinstance(event, PluginStopped | PluginKilled)]
    assert ends[0] == PluginStopped(name="quick")
    assert {event.name for event in ends[1:]} == {"slow", "stubborn"}
    assert 7 <= took < 14  # both at once, not one after the other
    assert gone(pids, within=1)


async def test_no_plugin_outlives_a_supervisor_whose_block_fails(folder: Path) -> None:
    pids: set[int] = set()
    with pytest.raises(LookupError, match="the block failed"):
        async with open_stage(folder) as stage:
            pids.add((await stage.actor(WELL).settled()).pid or 0)
            raise LookupError("the block failed")
    assert gone(pids, within=1)


@pytest.mark.usefixtures("bystander")
async def test_a_call_that_comes_while_its_plugin_is_ending_waits_and_starts_it_again(stage: Stage) -> None:
    actor = stage.actor(SLOW_TO_LEAVE + WELL)
    await actor.settled()
    stopping = asyncio.create_task(stage.supervisor.stop(actor.key))
    await stage.audience.until(lambda: "leaving" in stage.audience.lines)
    assert await actor.call("do.it") == {"well": True}
    await stopping
    assert len(told(stage, PluginSpawned)) == 2
    assert told(stage, PluginStopped) == [PluginStopped(name="actor")]


async def test_a_call_that_comes_while_its_plugin_is_being_disabled_is_told_so(stage: Stage) -> None:
    actor = stage.actor(SLOW_TO_LEAVE + WELL)
    await actor.settled()
    disabling = asyncio.create_task(stage.supervisor.disable(actor.key))
    await stage.audience.until(lambda: "leaving" in stage.audience.lines)
    with pytest.raises(NotFound, match="actor is not enabled"):
        await actor.call("do.it")
    await disabling


async def test_a_call_that_comes_while_the_host_is_ending_is_refused_and_starts_nothing(folder: Path) -> None:
    async with open_stage(folder) as stage:
        actor = stage.actor(SLOW_TO_LEAVE + WELL)
        await actor.settled()
        closing = asyncio.create_task(stage.supervisor.close())
        await stage.audience.until(lambda: "leaving" in stage.audience.lines)
        with pytest.raises(Unavailable, match="this host is shutting down"):
            await actor.call("do.it")
        await closing
        with pytest.raises(Unavailable, match="this host is shutting down"):
            await actor.call("do.it")
        assert actor.status.state is PluginState.STOPPED
    assert len(stage.audience.of(PluginSpawned)) == 1

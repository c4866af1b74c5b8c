"""Zygotes and their copies: how they end, what becomes of their plugins, and what is left."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.cage.daemons import FOREVER, Daemon, descriptors, eventually, gone, groups_of, kill_hard, mounts, open_daemon
from tests.cage.warm.warming import is_warm, launch, launched_warm, warm_up, zygote_of

from fixtures.packages import native, write_file
from paddock.cage.errors import CageUnavailable
from paddock.cage.linux import child_pids, subtree_pids
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.spec import CageSpec, ProcessExit
from paddock.cage.warden.client import CagedProcess, open_warden
from paddock.manifest.read import read_package


@pytest.fixture(params=["root", "ordinary user"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon of each test's own: what happens to its zygote here would be felt by others."""
    with open_daemon(ordinary=request.param == "ordinary user", warm=True) as daemon:
        warm_up(daemon)
        yield daemon


def test_a_plugin_that_is_launched_once_has_no_zygote_and_the_second_launch_starts_one() -> None:
    with open_daemon(warm=True) as daemon:
        launch(daemon, FOREVER)
        before = set(child_pids(daemon.warden))
        _, pid = launch(daemon, FOREVER)
        assert not is_warm(pid)
        assert len(set(child_pids(daemon.warden)) - before) == 2, "the plugin, and the zygote"
        warm_up(daemon)


def test_a_signal_reaches_a_warm_plugin_and_its_end_takes_everything_with_it(daemon: Daemon) -> None:
    script = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n" + FOREVER
    number, pid = launch(daemon, script)
    assert is_warm(pid)
    assert daemon.tell("line", number=number) == "ready"
    inside = subtree_pids(pid)
    assert len(inside) == 2
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    assert daemon.tell("end", number=number)["signal"] == signal.SIGTERM
    assert gone(inside, within=0)


def test_a_killed_zygote_takes_its_plugins_with_it_and_a_new_one_is_started(daemon: Daemon) -> None:
    number, pid = launch(daemon, FOREVER)
    assert is_warm(pid)
    old = zygote_of(daemon)
    kill_hard(old)
    assert daemon.tell("end", number=number)["signal"] == signal.SIGKILL
    warm_up(daemon)
    assert zygote_of(daemon) != old


def test_a_spare_copy_that_is_killed_is_replaced_and_costs_nobody_anything(daemon: Daemon) -> None:
    number, pid = launch(daemon, FOREVER)
    assert is_warm(pid)
    zygote = zygote_of(daemon)
    assert eventually(lambda: len(child_pids(zygote)) == 2)
    for spare in child_pids(zygote):
        if pid not in subtree_pids(spare):
            kill_hard(spare)
    assert launched_warm(daemon) or launched_warm(daemon)
    assert zygote_of(daemon) == zygote
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    assert daemon.tell("end", number=number)["signal"] == signal.SIGTERM


async def test_a_plugin_whose_files_are_gone_is_refused_and_its_neighbours_live_on(tmp_path: Path) -> None:
    present, missing = (installed(tmp_path / name, name) for name in ("present", "missing"))
    shutil.rmtree(tmp_path / "missing")
    async with open_warden(trees=tmp_path) as warden:
        neighbour = await warden.launch(present)
        with anyio.fail_after(30):
            while not is_warm(neighbour.pid):
                await ended(neighbour)
                neighbour = await warden.launch(present)
        with pytest.raises(CageUnavailable) as refused:
            await warden.launch(missing)
        assert refused.value.error_code == "cage.path_missing"
        os.kill(neighbour.pid, 0)  # it is there
        assert (await ended(neighbour)).cause == "killed"


def installed(root: Path, name: str) -> CageSpec:
    native(root, name, runtime={"command": ["python3", "plugin.py"]}, capabilities=[])
    write_file(root / "plugin.py", FOREVER)
    manifest = read_package(root).single()
    return compile_cage(
        cage_id=name,
        manifest=manifest,
        root=str(root),
        capabilities=(),
        environment=spawn_environment(manifest, str(root), "info"),
        host_paths=HostPaths(python="/usr/bin/python3"),
        filesystem=DiskFilesystem(),
    )


async def ended(process: CagedProcess) -> ProcessExit:
    process.kill()
    how = await process.wait()
    for descriptor in (process.stdin, process.stdout, process.stderr):
        os.close(descriptor)
    return how


def test_zygotes_that_fail_twice_in_a_row_are_left_alone_and_plugins_start_cold(daemon: Daemon) -> None:
    for _ in range(2):
        number, _ = launch(daemon, "pass")
        daemon.tell("end", number=number)
        assert eventually(lambda: bool(cages(daemon)))  # it looks like the warden until it has become bubblewrap
        (outer,) = cages(daemon)
        kill_hard(outer)
        assert eventually(lambda: not cages(daemon))
    for _ in range(3):
        assert not launched_warm(daemon)
    assert not cages(daemon)


def cages(daemon: Daemon) -> set[int]:
    """The outermost process of each."""
    return {*child_pids(daemon.warden)} & {*daemon.in_cages()}


def test_when_the_daemon_is_killed_neither_zygote_nor_plugin_is_left_two_seconds_later(daemon: Daemon) -> None:
    _, pid = launch(daemon, FOREVER)
    assert is_warm(pid)
    left = daemon.everything()
    assert zygote_of(daemon) in left
    kill_hard(daemon.process.pid)
    assert gone(left, within=2)


def test_many_launches_at_once_leave_nothing_behind(daemon: Daemon) -> None:
    asked = [daemon.ask("launch", script="print('ready')", limits={}, capabilities=[]) for _ in range(10)]
    for number in [daemon.answer(question)["number"] for question in asked]:
        assert daemon.tell("end", number=number)["code"] == 0
    before = open_things(daemon)
    asked = [daemon.ask("launch", script="print('ready')", limits={}, capabilities=[]) for _ in range(30)]
    for number in [daemon.answer(question)["number"] for question in asked]:
        assert daemon.tell("end", number=number)["code"] == 0
    # The first ten may still have been on their way out when they were counted, so fewer than then is fine.
    assert eventually(lambda: all(now <= then for now, then in zip(open_things(daemon), before, strict=True)))


def test_when_the_daemon_ends_no_group_is_left_in_the_kernel() -> None:
    with open_daemon(warm=True) as daemon:
        warm_up(daemon)
        warden = daemon.warden
        assert eventually(lambda: bool(groups_of(warden)))
    assert not groups_of(warden)


def open_things(daemon: Daemon) -> list[int]:
    """Descriptors and mounts of the warden, and the processes below it."""
    return [descriptors(daemon.warden), mounts(daemon.warden), len(daemon.everything())]

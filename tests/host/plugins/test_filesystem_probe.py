"""Granted paths that never answer: which plugins are refused for them, and which are not affected."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from fixtures.commands import SOURCE
from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.host_filesystem import DiskFilesystem, FileKind
from paddock.host.plugins.launch.filesystem_probe import FilesystemProbe
from paddock.runtime.exit_reason import ProcessCrashed, exit_reason_for


class DeadMount(DiskFilesystem):
    """A machine where looking at one place hangs until it is taken away."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.reached = threading.Event()
        self.looks = 0

    def kind(self, path: str) -> FileKind | None:
        if path.startswith("/dead"):
            self.looks += 1
            self.reached.set()
            self.gone.wait(60)
        return super().kind(path)


@contextmanager
def dead_mount() -> Generator[DeadMount, None, None]:
    machine = DeadMount()
    try:
        yield machine
    finally:
        machine.gone.set()


async def test_a_look_that_hangs_is_given_up_and_the_place_is_named() -> None:
    with dead_mount() as machine:
        looks = FilesystemProbe(machine, timeout_s=0.2)
        with pytest.raises(CageUnavailable) as refused:
            await looks.run("reader", lambda seen: seen.kind("/dead/data"))
        assert refused.value.error_code == "cage.place_hangs"
        assert refused.value.message == "/dead/data does not answer"
        assert "take the grant back" in refused.value.hint


async def test_others_look_while_one_hangs_and_what_a_look_raises_is_the_callers() -> None:
    with dead_mount() as machine:
        looks = FilesystemProbe(machine, timeout_s=5)
        hanging = asyncio.ensure_future(looks.run("reader", lambda seen: seen.kind("/dead/data")))
        for _ in range(50):
            assert await patiently(looks.run("healthy", lambda seen: seen.kind("/"))) == "directory"
        with pytest.raises(ZeroDivisionError):
            await looks.run("healthy", lambda _: 1 // 0)
        machine.gone.set()
        assert await patiently(hanging) is None


async def test_however_many_plugins_hang_on_a_dead_mount_those_without_a_grant_on_it_start() -> None:
    with dead_mount() as machine:
        looks = FilesystemProbe(machine, timeout_s=0.3)
        asked = [looks.run(number, lambda seen: seen.kind("/dead/data")) for number in range(50)]
        ended = await patiently(asyncio.gather(*asked, return_exceptions=True))
        assert {one.error_code for one in ended if isinstance(one, CageUnavailable)} == {"cage.place_hangs"}
        assert machine.looks == 50
        assert await patiently(looks.run("healthy", lambda seen: seen.kind("/"))) == "directory"


async def test_a_plugin_whose_last_look_still_hangs_is_refused_at_once_and_costs_no_second_thread() -> None:
    with dead_mount() as machine:
        looks = FilesystemProbe(machine, timeout_s=0.3)
        asked = [looks.run("reader", lambda seen: seen.kind("/dead/data")) for _ in range(9)]
        ended = await patiently(asyncio.gather(*asked, return_exceptions=True))
        assert all(isinstance(one, CageUnavailable) for one in ended)
        with pytest.raises(CageUnavailable) as refused:
            await asyncio.wait_for(looks.run("reader", lambda seen: seen.kind("/")), 0.2)
        assert (refused.value.error_code, refused.value.message) == ("cage.place_hangs", "/dead/data does not answer")
        assert machine.looks == 1

        machine.gone.set()
        assert await patiently(once_it_answers(looks)) == "directory"


async def once_it_answers(looks: FilesystemProbe) -> FileKind | None:
    """A thread that was held ends as soon as it can go on; nobody is told when that is."""
    while True:
        try:
            return await looks.run("reader", lambda seen: seen.kind("/"))
        except CageUnavailable:
            await asyncio.sleep(0.01)


async def test_when_no_thread_may_be_added_a_plugin_is_told_so_and_tried_again_later() -> None:
    with dead_mount() as machine:
        looks = FilesystemProbe(machine, timeout_s=0.3, max_concurrent=3)
        asked = [looks.run(number, lambda seen: seen.kind("/dead/data")) for number in range(3)]
        await patiently(asyncio.gather(*asked, return_exceptions=True))
        with pytest.raises(CageUnavailable) as refused:
            await asyncio.wait_for(looks.run("healthy", lambda seen: seen.kind("/")), 0.2)
        assert refused.value.error_code == "cage.looks_busy"
        assert isinstance(exit_reason_for(refused.value, ran=False), ProcessCrashed), "it fails for good"


async def test_whoever_stops_waiting_for_a_look_has_the_next_once_it_returns() -> None:
    with dead_mount() as machine:
        looks = FilesystemProbe(machine, timeout_s=30, max_concurrent=1)
        given_up = asyncio.ensure_future(looks.run("reader", lambda seen: seen.kind("/dead/data")))
        assert await asyncio.to_thread(machine.reached.wait, 30)
        given_up.cancel()
        waiting = asyncio.ensure_future(looks.run("reader", lambda seen: seen.kind("/")))
        machine.gone.set()
        assert await patiently(waiting) == "directory"


# A host on a machine of which one mount is dead: a file system in user space whose program never says a word.
HOST = """
import asyncio, ctypes, json, os, sys, time
from pathlib import Path
from paddock import Config, open_host
home, dead = sys.argv[1:]
device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if ctypes.CDLL(None, use_errno=True).mount(b"hangs", os.fsencode(dead), b"fuse", 0, options):
    sys.exit(77)

async def main():
    async with open_host(Config(home=Path(home), environ={})) as host:
        began = time.monotonic()
        answer = await host.call("parrot.say", {"text": "hello"})
        spent = time.monotonic() - began
        listed = {row["name"]: row["state"] for row in await host.plugins.inventory.list_all()}
        meanwhile = {status.key.plugin: status.state.value for status in host.plugins.processes.statuses()}
        ended = {status.key.plugin: [status.state.value, status.error_code, status.reason, status.hint]
                 for status in await host.plugins.processes.wait_settled()}
        told = dict(answer=answer, spent=spent, listed=listed, meanwhile=meanwhile, ended=ended)
        print(json.dumps(told), flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_granted_places_on_a_dead_mount_refuse_those_plugins_and_the_others_start_meanwhile(
    home: Home, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("only root can mount what hangs")
    dead = tmp_path / "dead"
    dead.mkdir()
    for name in ("a-reader", "b-reader", "c-reader"):  # more than may start at a time, and before the healthy one
        home.install(name, capabilities=[f"read:fs:{dead}/data"])
    home.install()

    apart = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", HOST]
    ran = subprocess.run(
        [*apart, str(home.path), str(dead)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=90,
        check=False,
    )
    if ran.returncode == 77:
        pytest.skip("nothing can be mounted here")
    assert ran.returncode == 0, ran.stderr.decode()
    told = json.loads(ran.stdout)

    assert told["answer"]["text"] == "hello"
    assert told["spent"] < 8, "it waited for those that hang"
    assert told["meanwhile"] == {
        "a-reader": "spawning",
        "b-reader": "spawning",
        "c-reader": "spawning",
        "parrot": "running",
    }
    for name in ("a-reader", "b-reader", "c-reader"):
        state, code, reason, hint = told["ended"][name]
        assert (state, code) == ("failed", "cage.place_hangs")
        assert str(dead) in reason
        assert "take the grant back" in hint

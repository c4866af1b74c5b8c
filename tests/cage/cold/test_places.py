"""Granted places that hang, are closed or are gone by the time of the launch."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.cage.daemons import FOREVER, Daemon, open_daemon, running

# A file system in user space whose program never says a word.
HANGING = """
import ctypes, os, sys, time
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
assert ctypes.CDLL(None).mount(b"hangs", os.fsencode(sys.argv[1]), b"fuse", 0, options) == 0
print("ready", flush=True)
time.sleep(600)
"""


def test_a_granted_place_that_hangs_refuses_that_plugin_alone() -> None:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("only root can mount what hangs")
    with open_daemon(ordinary=True, prepare='mkdir -m 755 "$1/tree"') as daemon:
        other = running(daemon)
        late = daemon.tell("compile", script=FOREVER, capabilities=[f"read:fs:{daemon.folder / 'tree'}"])
        entering = ["nsenter", "--mount", "--target", str(daemon.process.pid)]
        hanging = subprocess.Popen(
            [*entering, "/usr/bin/python3", "-c", HANGING, str(daemon.folder / "tree")], stdout=subprocess.PIPE
        )
        with hanging:
            assert hanging.stdout is not None
            assert hanging.stdout.readline() == b"ready\n"
            begun = time.monotonic()
            told = daemon.tell("launch_compiled", number=late)
            assert told["refused"] == "cage.place_hangs"
            assert str(daemon.folder / "tree") in told["message"]
            assert "take the grant back" in told["hint"]
            assert time.monotonic() - begun < 10
            running(daemon)
            daemon.tell("signal", number=other, which=signal.SIGTERM)
            assert daemon.tell("end", number=other)["signal"] == signal.SIGTERM, "it lived until now"
            hanging.kill()


def test_a_place_that_the_daemon_may_not_reach_by_the_time_of_the_launch_is_refused_with_a_hint() -> None:
    with open_daemon(ordinary=True) as daemon:
        tree = daemon.folder / "closed" / "tree"
        tree.mkdir(parents=True)
        late = daemon.tell("compile", script=FOREVER, capabilities=[f"read:fs:{tree}"])
        tree.parent.chmod(0)
        refused = daemon.tell("launch_compiled", number=late)
        assert refused["refused"] == "cage.path_forbidden"
        assert refused["hint"].startswith(f"namei -l {tree} ")
        tree.parent.chmod(0o755)


def test_what_is_gone_by_the_time_of_the_launch_refuses_that_plugin_alone(daemon: Daemon) -> None:
    lost = daemon.folder / "lost"
    lost.mkdir()
    told = daemon.tell("launch", script=FOREVER, limits={}, capabilities=[f"read:fs:{lost}"], remove=str(lost))
    assert (told["refused"], str(lost) in told["message"]) == ("cage.path_missing", True)
    running(daemon)

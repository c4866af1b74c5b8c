"""A bubblewrap that changes while the daemon runs."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from tests.cage.daemons import FOREVER, open_daemon, running


def test_a_bubblewrap_that_stops_working_is_looked_at_again_and_used_again_once_it_works() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can put another program in its place")
    with open_daemon(ordinary=True, prepare="true") as daemon:
        running(daemon)
        entering = ["nsenter", "--mount", "--target", str(daemon.process.pid)]
        subprocess.run([*entering, "mount", "--bind", "/bin/false", "/usr/bin/bwrap"], check=True)
        assert daemon.refusal(FOREVER)["refused"] == "cage.bwrap_failed"
        looked = daemon.refusal(FOREVER)
        assert "does not tell its version" in looked["message"]
        assert "install bubblewrap" in looked["hint"]
        subprocess.run([*entering, "umount", "/usr/bin/bwrap"], check=True)
        running(daemon)


def test_a_bubblewrap_that_moved_is_found_where_it_is_now() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can move it")
    with open_daemon(ordinary=True, prepare="mount -t tmpfs -o mode=755 none /usr/local/sbin") as daemon:
        number = running(daemon)
        entering = ["nsenter", "--mount", "--target", str(daemon.process.pid), "sh", "-c"]
        moved = "cp /usr/bin/bwrap /usr/local/sbin/ && mount --bind -o ro /dev/null /usr/bin/bwrap"
        subprocess.run([*entering, moved], check=True)
        daemon.refusal(FOREVER)
        daemon.tell("kill", number=number)
        assert daemon.tell("end", number=number)["signal"] == signal.SIGKILL
        running(daemon)

"""Real plugins in real cages, started and ended by a real warden, for a daemon that is root and for one that is not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.cage.daemons import FOREVER, Daemon, gone, kill_hard, open_daemon, running


def test_a_plugin_runs_and_what_it_said_and_how_it_ended_come_back(daemon: Daemon) -> None:
    number = daemon.launch("import os, sys\nprint(os.getuid(), os.getpid(), flush=True)\nsys.exit(7)")
    assert daemon.tell("line", number=number) == "65534 2"
    assert daemon.tell("end", number=number) == {"code": 7, "signal": None, "cause": "", "details": {}}


def test_a_signal_reaches_the_plugins_own_process_and_its_death_is_told_as_a_signal(daemon: Daemon) -> None:
    number = running(daemon)
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    ended = daemon.tell("end", number=number)
    assert (ended["code"], ended["signal"], ended["cause"]) == (None, signal.SIGTERM, "")


def test_an_exit_code_above_128_is_not_told_as_a_signal_where_the_kernel_knows_better(daemon: Daemon) -> None:
    ended = daemon.tell("end", number=daemon.launch("import sys\nsys.exit(137)"))
    knows = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)
    assert (ended["code"], ended["signal"]) == ((137, None) if knows else (None, 9))


def test_a_plugin_may_handle_a_signal_and_end_in_order(daemon: Daemon) -> None:
    script = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(3))\n" + FOREVER
    number = running(daemon, script)
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    assert daemon.tell("end", number=number)["code"] == 3


def test_a_plugin_that_ignores_the_polite_signal_does_not_survive_a_kill(daemon: Daemon) -> None:
    script = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + FOREVER
    number = running(daemon, script)
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    inside = daemon.in_cages()
    daemon.tell("kill", number=number)
    ended = daemon.tell("end", number=number)
    assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "killed")
    assert gone(inside, within=0)


def test_nothing_that_a_plugin_started_outlives_it_however_often_it_forked(daemon: Daemon) -> None:
    script = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready", flush=True)
input()
"""
    number = running(daemon, script)
    inside = daemon.in_cages()
    assert len(inside) == 4, "bubblewrap outside and inside, the plugin, and the one that was to be forgotten"
    daemon.tell("signal", number=number, which=signal.SIGKILL)
    daemon.tell("end", number=number)
    assert gone(inside, within=0)


@pytest.mark.req("G-38", "signals")
def test_a_plugin_cannot_signal_its_neighbour(daemon: Daemon) -> None:
    neighbour = daemon.tell("launch", script=FOREVER, limits={}, capabilities=[])
    script = f"""
import os
def attempt(pid):
    try: os.kill(pid, 9)
    except OSError as error: return type(error).__name__
    return "killed"
print(attempt({neighbour["pid"]}), flush=True)
"""
    number = daemon.launch(script)
    assert daemon.tell("line", number=number) == "ProcessLookupError"
    assert daemon.tell("line", number=neighbour["number"]) == "ready"


@pytest.mark.slow
def test_a_cage_that_never_gets_ready_is_given_up_after_twenty_seconds(daemon: Daemon) -> None:
    began = time.monotonic()
    told = daemon.tell("launch_something_that_never_gets_ready")
    assert (told["refused"], 19 < time.monotonic() - began < 25) == ("cage.launch_timeout", True)
    assert daemon.in_cages() == []
    running(daemon)


def test_the_warden_is_ready_soon_and_stays_small(daemon: Daemon) -> None:
    running(daemon)
    status = Path(f"/proc/{daemon.warden}/status").read_text()
    held = {line.split(":")[0]: line.split() for line in status.splitlines()}
    assert held["Threads"][1] == "1"
    assert int(held["VmRSS"][1]) < 64 * 1024


def test_a_warden_serves_a_daemon_on_the_fast_loop_too() -> None:
    pytest.importorskip("uvloop")
    with open_daemon(loop="uvloop") as daemon:
        number = running(daemon)
        daemon.tell("signal", number=number, which=signal.SIGTERM)
        assert daemon.tell("end", number=number)["signal"] == signal.SIGTERM
        number = running(daemon)
        kill_hard(daemon.warden)
        assert daemon.tell("end", number=number)["cause"] == "warden_lost"
        running(daemon)


def test_root_of_a_container_builds_cages_as_an_ordinary_user_does() -> None:
    with open_daemon(ordinary=True, contained=True) as daemon:
        number = daemon.launch("import os\nprint(os.getuid(), flush=True)")
        assert daemon.tell("line", number=number) == "65534"
        assert daemon.tell("end", number=number)["code"] == 0

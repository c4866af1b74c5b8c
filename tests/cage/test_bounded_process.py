"""Helper programs run within limits, and none of their processes outlives them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.cage.daemons import eventually

from paddock.cage.bounded_process import ProcessLimits, run_bounded

ENVIRON = {"PATH": os.environ["PATH"]}

# Becomes a daemon: another session, and no parent in the program's tree.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1], sys.argv[1] + ".written")
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1] + ".written"):
    time.sleep(0.01)
"""

# Starts several processes, and waits until each has done what it does first. It prints their ids.
SEVERAL = """
import os, time
for _ in range(12):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        %s
    os.close(writing)
    os.read(reading, 1)
    print(pid)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_ends_is_reported_with_its_status_and_its_output() -> None:
    ran = run_bounded(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], ENVIRON)

    assert (ran.status, ran.output, ran.errors, ran.stopped) == (3, "out\n", "err\n", "")
    assert ran.outcome_text == "ended with status 3"


@pytest.mark.parametrize("ending", ["", "time.sleep(600)"])
def test_a_daemon_that_a_program_started_does_not_outlive_it(tmp_path: Path, ending: str) -> None:
    file = tmp_path / "pid"
    ran = run_bounded([sys.executable, "-I", "-S", "-c", DAEMON + ending, str(file)], ENVIRON, ProcessLimits(2))

    assert ran.stopped == ("timeout" if ending else "")
    assert not is_running(int((tmp_path / "pid.written").read_text()))


@pytest.mark.parametrize(
    "first",
    ["os.setsid(); os.write(writing, b'.'); time.sleep(600)", "os.execve('/bin/sleep', ['sleep', '600'], {})"],
    ids=["left the process group", "cleared their environment"],
)
def test_of_many_processes_that_a_program_leaves_behind_none_goes_on(first: str) -> None:
    ran = run_bounded([sys.executable, "-I", "-S", "-c", SEVERAL % first], ENVIRON, ProcessLimits(30))

    left = [int(pid) for pid in ran.output.split()]
    assert (ran.stopped, len(left)) == ("", 12)
    assert eventually(lambda: not any(map(is_running, left))), "they were killed, and end in a moment"


def test_a_program_that_takes_too_long_is_killed_and_its_output_so_far_is_kept() -> None:
    ran = run_bounded(["/bin/sh", "-c", "echo hello; sleep 600"], ENVIRON, ProcessLimits(0.5))

    assert (ran.status, ran.output, ran.stopped) == (None, "hello\n", "timeout")
    assert ran.outcome_text == "took longer than 0.5 seconds"


@pytest.mark.parametrize(
    ("command", "limit", "stopped"),
    [
        ("exec yes", 1000, "output"),
        ("exec yes >&2", 1000, "output"),
        ("printf 123456", 5, "output"),
        ("printf 12345", 5, ""),
    ],
)
def test_output_over_the_limit_is_cut_and_never_reported_as_an_ordinary_end(
    command: str, limit: int, stopped: str
) -> None:
    ran = run_bounded(["/bin/sh", "-c", command], ENVIRON, ProcessLimits(30, limit))

    assert (ran.stopped, ran.status) == (stopped, None if stopped else 0)
    assert len(ran.text) == limit


def test_a_caller_that_stops_waiting_ends_the_program(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    def stop_once_started() -> None:
        if (tmp_path / "pid.written").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bounded(
            [sys.executable, "-I", "-S", "-c", DAEMON + "time.sleep(600)", str(file)],
            ENVIRON,
            ProcessLimits(60),
            progress=stop_once_started,
        )

    assert not is_running(int((tmp_path / "pid.written").read_text()))

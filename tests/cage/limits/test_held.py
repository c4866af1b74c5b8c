"""Plugins that take more than they may of memory, processes and CPU, and what holds them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.cage.daemons import FOREVER, Daemon, gone, open_daemon, running


@pytest.mark.req("O-12", "memory")
@pytest.mark.req("G-49", "memory")
def test_processes_that_eat_too_much_memory_together_are_ended_for_that_reason(daemon: Daemon) -> None:
    # Many processes, each of them modest: a limit on one process alone would not see it.
    script = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        eaten = bytearray(os.urandom(1 << 20) * 16)
        time.sleep(600)
print("ready", flush=True)
print("lost one to signal", os.wait()[1] & 127, flush=True)
time.sleep(600)
"""
    number = running(daemon, script, memory_bytes=96 << 20)
    if daemon.tell("mechanisms")["memory"] == "cgroup v1":
        # The kernel ends one of them; the plugin goes on with the others, within its limit.
        assert daemon.tell("line", number=number) == "lost one to signal 9"
        return
    ended = daemon.tell("end", number=number)
    assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "memory")
    assert daemon.in_cages() == []


@pytest.mark.req("G-49", "memory")
def test_one_process_that_eats_too_much_memory_dies_of_it(daemon: Daemon) -> None:
    script = "print('ready', flush=True)\neaten = []\nwhile True: eaten.append(bytearray(1 << 22))"
    number = running(daemon, script, memory_bytes=64 << 20)
    ended = daemon.tell("end", number=number)
    if daemon.tell("mechanisms")["memory"].startswith("cgroup"):
        assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "memory")
    else:
        # Refused by its own limit, which Python tells as an exception.
        assert ended["code"] == 1 or ended["cause"] == "memory"


@pytest.mark.req("G-49", "processes")
def test_a_plugin_that_forks_without_end_is_held_at_its_limit_and_ends_at_once(daemon: Daemon) -> None:
    script = """
import os, time
made = 0
while True:
    try:
        if os.fork() == 0: time.sleep(600)
        made += 1
    except OSError:
        print("held", made, flush=True)
        while True: time.sleep(60)
"""
    number = daemon.launch(script, pids=40)
    word, made = daemon.tell("line", number=number).split()
    # Where processes count for themselves, the first one of the cage, which is not the plugin's, counts too.
    assert (word, int(made)) in [("held", 39), ("held", 38)]
    inside = daemon.in_cages()
    daemon.tell("kill", number=number)
    daemon.tell("end", number=number)
    assert gone(inside, within=0)


NO_GROUPS = "mount -t tmpfs none /sys/fs/cgroup"


def test_a_machine_without_groups_is_survived() -> None:
    with open_daemon(prepare=NO_GROUPS) as without:
        running(without)
        assert without.tell("mechanisms")["memory"] == "rlimits and a watchdog"


@pytest.mark.parametrize("ordinary", [False, True])
def test_where_no_group_shares_the_cpu_a_plugin_steps_back_as_its_weight_asks_and_cannot_undo_it(
    *, ordinary: bool
) -> None:
    script = """
import os
def go_before_others():
    try: os.nice(-1)
    except OSError as error: return type(error).__name__
    return "done"
if os.fork() == 0:
    print(os.nice(0), go_before_others(), flush=True)
    os._exit(0)
os.wait()
"""
    if os.geteuid() != 0:
        pytest.skip("only root can take the groups away")
    with open_daemon(ordinary=ordinary, prepare=NO_GROUPS) as without:
        assert without.tell("mechanisms")["cpu"] == "niceness"
        for weight, degree in ((1024, 0), (256, 6)):
            number = without.launch(script, cpu_weight=weight)
            assert without.tell("line", number=number) == f"{degree} PermissionError"


def test_where_the_kernel_shares_the_cpu_among_sessions_the_whole_cage_steps_back() -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel does not")
    with open_daemon(prepare=NO_GROUPS) as without:
        told = without.tell("launch", script=FOREVER, limits={"cpu_weight": 256}, capabilities=[])
        assert Path(f"/proc/{told['pid']}/autogroup").read_text().endswith("nice 6\n")


@pytest.mark.req("O-12", "CPU")
@pytest.mark.req("G-49", "CPU")
def test_cpu_is_shared_by_weight_and_cut_only_where_that_is_set(root_daemon: Daemon) -> None:
    if not root_daemon.tell("mechanisms")["cpu"].startswith("cgroup"):
        pytest.skip("no cgroup holds CPU here")
    burn = """
import time
print("ready", flush=True)
began = time.monotonic()
while time.monotonic() - began < 1.0: pass
print(time.process_time(), flush=True)
"""
    number = running(root_daemon, burn, cpu_quota=0.2)
    used = float(root_daemon.tell("line", number=number))
    assert used < 0.5, "a fifth of a second is allowed in each second, and a start"

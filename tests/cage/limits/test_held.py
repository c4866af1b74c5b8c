"""Plugins that take more than they may of memory, processes and CPU, and what holds them."""

from __future__ import annotations

import signal

import pytest
from tests.cage.daemons import Daemon, gone, open_daemon, running


@pytest.mark.req("G-49")
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


@pytest.mark.req("G-49")
def test_one_process_that_eats_too_much_memory_dies_of_it(daemon: Daemon) -> None:
    script = "print('ready', flush=True)\neaten = []\nwhile True: eaten.append(bytearray(1 << 22))"
    number = running(daemon, script, memory_bytes=64 << 20)
    ended = daemon.tell("end", number=number)
    if daemon.tell("mechanisms")["memory"].startswith("cgroup"):
        assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "memory")
    else:
        # Refused by its own limit, which Python tells as an exception.
        assert ended["code"] == 1 or ended["cause"] == "memory"


@pytest.mark.req("G-49")
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


def test_a_machine_without_groups_is_survived() -> None:
    with open_daemon(prepare="mount -t tmpfs none /sys/fs/cgroup") as without:
        running(without)
        assert without.tell("mechanisms")["memory"] == "rlimits and a watchdog"


@pytest.mark.req("O-12")
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

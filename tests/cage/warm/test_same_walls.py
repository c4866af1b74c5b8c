"""Plugins that a warm interpreter turns into stand behind the same walls."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.cage.daemons import FOREVER, Daemon
from tests.cage.warm.warming import is_warm, launch, launched_warm, said


@pytest.mark.req("G-38", "files")
def test_of_all_installed_plugins_only_its_own_files_exist_for_it_even_new_ones(daemon: Daemon) -> None:
    script = "import json, os; print(json.dumps([os.getcwd(), os.listdir('..')]))"
    where, around = said(daemon, script)
    assert around == [Path(where).name]
    assert len([path for path in daemon.folder.iterdir() if path.name.startswith("plugin-")]) > 1


def test_nothing_that_was_given_to_one_plugin_is_in_the_memory_of_the_next(daemon: Daemon) -> None:
    # Each plugin's environment and files name its own directory, and its neighbours' nowhere.
    first, _ = launch(daemon, FOREVER)
    script = """
import json, os, re
found, memory = set(), open("/proc/self/mem", "rb", buffering=0)
for line in open("/proc/self/maps"):
    begin, end = (int(word, 16) for word in line.split()[0].split("-"))
    try:
        memory.seek(begin)
        found |= set(re.findall(rb"plugin-[0-9]+", memory.read(end - begin)))
    except (OSError, OverflowError, ValueError):
        pass
print(json.dumps([sorted(name.decode() for name in found), os.path.basename(os.getcwd())]))
"""
    found, own = said(daemon, script)
    assert found == [own]
    assert own != f"plugin-{first}"


@pytest.mark.req("G-38", "files")
def test_what_one_plugin_leaves_in_places_of_the_kernel_is_not_there_for_its_neighbour(daemon: Daemon) -> None:
    leave = """
import ctypes, os, pty, time
ours, theirs = pty.openpty()
for directory in ("/tmp", "/dev/shm"):
    open(directory + "/note", "w").write("hello")
ctypes.CDLL(None).shmget(4711, 4096, 0o1666)
print("ready", flush=True)
time.sleep(600)
"""
    look = """
import ctypes, json, os
print(json.dumps([sorted(os.listdir("/dev/pts")), os.path.exists("/tmp/note"), os.listdir("/dev/shm"),
                  ctypes.CDLL(None).shmget(4711, 4096, 0), [p for p in os.listdir("/proc") if p.isdigit()]]))
"""
    number, pid = launch(daemon, leave)
    assert is_warm(pid)
    assert daemon.tell("line", number=number) == "ready"
    assert said(daemon, look) == [["ptmx"], False, [], -1, ["1", "2"]]


def test_a_warm_plugin_has_no_power_to_leave_its_cage(daemon: Daemon) -> None:
    script = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(work):
    try: work()
    except OSError as error: return type(error).__name__
    return "done"
def call(name, *arguments):
    def work():
        if getattr(libc, name)(*arguments) < 0: raise OSError(ctypes.get_errno(), name)
    return attempt(work)
print(json.dumps({
    "user namespace": call("unshare", 0x10000000),
    "mount namespace": call("unshare", 0x20000),
    "mount": call("mount", b"x", b"/tmp", b"tmpfs", 0, None),
    "uncover the other trees": call("umount2", os.path.dirname(os.getcwd()).encode(), 2),
    "remount": call("mount", None, b"/", None, 32 | 4096, None),
    "trace": call("ptrace", 16, 1, 0, 0),
    "root of the first": attempt(lambda: os.listdir("/proc/1/root")),
    "files of the first": attempt(lambda: os.readlink("/proc/1/fd/0")),
    "memory of the first": attempt(lambda: open("/proc/1/mem", "rb")),
    "environment of the first": attempt(lambda: open("/proc/1/environ").read()),
    "become root": call("setuid", 0),
    "own files": attempt(lambda: open("note", "w")),
    "unix socket": call("socket", 1, 1, 0),
    "run a program": attempt(lambda: os.execv("/bin/sh", ["sh"])),
    "end the first": attempt(lambda: os.kill(1, 9)),
}))
"""
    results = said(daemon, script)
    # Where Landlock does not refuse it, the kernel still does not end a first process from within.
    assert results.pop("end the first") in ("done", "PermissionError")
    assert "done" not in results.values(), results


def test_a_warm_plugin_is_held_at_the_same_number_of_processes(either_way: Daemon) -> None:
    script = """
import os, time
made = 0
while True:
    try:
        if os.fork() == 0: time.sleep(600)
        made += 1
    except OSError:
        print(made, flush=True)
        while True: time.sleep(60)
"""
    number, _ = launch(either_way, script, pids=40)
    assert either_way.tell("line", number=number) in ("39", "40")
    either_way.tell("kill", number=number)
    either_way.tell("end", number=number)


def test_a_warm_plugin_that_eats_memory_is_ended_for_that_reason(daemon: Daemon) -> None:
    eats = "input()\neaten = []\nwhile True: eaten.append(bytearray(1 << 22))"
    number, pid = launch(daemon, eats, memory_bytes=64 << 20)
    assert is_warm(pid)
    daemon.tell("write", number=number, text="\n")
    ended = daemon.tell("end", number=number)
    if daemon.tell("mechanisms")["memory"].startswith("cgroup"):
        assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "memory")
    else:
        assert ended["code"] == 1 or ended["cause"] == "memory"
    assert launched_warm(daemon), "the zygote has nothing to do with it"

"""Plugins that a warm interpreter turns into: the same program as started cold, only sooner."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.cage.daemons import FOREVER, Daemon, open_daemon
from tests.cage.warm.warming import is_warm, launch, said, warm_up


def test_the_first_launch_does_not_wait_for_a_zygote_and_later_ones_come_from_it() -> None:
    with open_daemon(warm=True) as daemon:
        _, first = launch(daemon, FOREVER)
        assert not is_warm(first)
        warm_up(daemon)


def test_a_script_finds_itself_as_python_starts_scripts() -> None:
    script = """
import json, os, resource, signal, socket, sys, time
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
walls = "CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters NSpgid NSsid Umask".split()
streams = (sys.stdin, sys.stdout, sys.stderr)
print(json.dumps({
    "argv": [os.path.basename(word) for word in sys.argv],
    "name": [__name__, os.path.basename(__file__), sys.modules["__main__"].__dict__ is globals()],
    "globals": sorted(globals()),
    "path": [entry for entry in sys.path if "plugin-" not in entry],
    "own path": sys.path[0] == os.path.dirname(__file__) == os.getcwd(),
    "our modules": [name for name in sys.modules if name.split(".")[0] in ("paddock", "zygote", "trampoline")],
    "variables": sorted(os.environ),
    "streams": [[s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.seekable()] for s in streams],
    "signals": {n: str(signal.getsignal(n)) for n in range(1, 32)},
    "blocked": str(signal.pthread_sigmask(0, [])),
    "user": [os.getuid(), os.getgid(), os.getgroups()],
    "pid": os.getpid(),
    "walls": {name: status[name] for name in walls},
    "limits": {n: resource.getrlimit(n) for n in range(16)},
    "network": [socket.gethostname(), socket.if_nameindex()],
    "zone": time.tzname,
    "files": {d: sorted(os.listdir(d)) for d in ("/", "/etc", "/dev", "/dev/shm", "/proc/self/fd", "/usr", "/usr/lib")},
    "about itself": os.access("/proc/self/environ", os.R_OK),
    "writable": [d for d in ("/", "/proc", "/dev", "/etc", "/usr", ".", "/tmp", "/dev/shm") if os.access(d, os.W_OK)],
}))
"""
    with open_daemon(warm=False) as daemon:
        cold = said(daemon, script)
    with open_daemon(warm=True) as daemon:
        warm_up(daemon)
        warm = said(daemon, script)
    assert warm == cold


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("import sys; sys.exit(7)", {"code": 7}),
        ("import sys; sys.exit('a reason')", {"code": 1}),
        ("raise ValueError('no')", {"code": 1}),
        ("this is no python", {"code": 1}),
        ("import os; os._exit(9)", {"code": 9}),
        ("import os; os.kill(os.getpid(), 15)", {"signal": signal.SIGTERM}),
        ("import os; os.kill(os.getpid(), 2)", {"signal": signal.SIGINT}),
        ("import atexit, os; atexit.register(os._exit, 5)", {"code": 5}),
        (
            "import os, threading, time; threading.Thread(target=lambda: (time.sleep(0.1), os._exit(6))).start()",
            {"code": 6},
        ),
        ("print('half a line', end='')", {"code": 0}),
    ],
)
def test_a_script_ends_as_it_would_anywhere(either_way: Daemon, script: str, ended: dict[str, Any]) -> None:
    number, _ = launch(either_way, script)
    assert either_way.tell("end", number=number) == {"code": None, "signal": None, "cause": "", "details": {}} | ended


def test_a_traceback_shows_the_authors_lines_and_none_of_ours(either_way: Daemon) -> None:
    script = """
import sys
sys.stderr = sys.stdout
def fail(): raise LookupError("gone")
fail()
"""
    number, _ = launch(either_way, script)
    lines = [either_way.tell("line", number=number) for _ in range(5)]
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("File")] == [
        line for line in lines if line.startswith("File") and "plugin.py" in line
    ]


def test_a_plugin_with_a_module_named_like_one_of_pythons_gets_its_own(daemon: Daemon) -> None:
    number, _ = launch(daemon, "pass")
    daemon.tell("end", number=number)
    own = daemon.folder / f"plugin-{number + 1}"
    own.mkdir()
    own.chmod(0o777)
    (own / "random.py").write_text("whose = 'mine'\n")
    number, pid = launch(daemon, "import random\nprint(random.whose, flush=True)\ninput()")
    assert daemon.tell("line", number=number) == "mine"
    assert not is_warm(pid)

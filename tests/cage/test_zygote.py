"""Plugins that a warm interpreter turns into: the same program in the same cage, only sooner."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cage.daemons import Daemon, eventually, gone, kill_hard, open_daemon

from fixtures.packages import native, write_file
from paddock.cage.launcher import CagedProcess, CageUnavailable
from paddock.cage.plan.compile import Surroundings, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.machine import DiskMachine
from paddock.cage.process_tree import children, family
from paddock.cage.spec import CageSpec, Exit
from paddock.cage.warden.launching import open_warden
from paddock.manifest.read import read_package

FOREVER = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"


@pytest.fixture(params=["root", "ordinary user"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon whose zygote is warm."""
    with open_daemon(ordinary=request.param == "ordinary user", warm=True) as daemon:
        warm_up(daemon)
        yield daemon


@pytest.fixture(params=["warm", "cold"])
def either_way(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that starts plugins one way or the other."""
    with open_daemon(warm=request.param == "warm") as daemon:
        if request.param == "warm":
            warm_up(daemon)
        yield daemon


def launch(daemon: Daemon, script: str, **limits: Any) -> tuple[int, int]:
    """Start a plugin; its number, and the pid of its process."""
    told = daemon.tell("launch", script=script, limits=limits, capabilities=[])
    assert "number" in told, told
    return told["number"], told["pid"]


def is_warm(pid: int) -> bool:
    """Whether a plugin came from a zygote: then the first process of its cage is not bubblewrap."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Path(f"/proc/{status['PPid']}/comm").read_text().strip() != "bwrap"


def launched_warm(daemon: Daemon) -> bool:
    number, pid = launch(daemon, FOREVER)
    warm = is_warm(pid)
    daemon.tell("kill", number=number)
    daemon.tell("end", number=number)
    return warm


def warm_up(daemon: Daemon) -> None:
    deadline = time.monotonic() + 30
    while not launched_warm(daemon):
        assert time.monotonic() < deadline, "no plugin is ever started warm"


def zygote_of(daemon: Daemon) -> int:
    """The zygote's own process: the only one below bubblewrap's two that has a spare copy for a child."""
    (inner,) = [pid for outer in children(daemon.warden) for pid in children(outer)]
    (zygote,) = children(inner)
    return zygote


def said(daemon: Daemon, script: str) -> Any:
    """What a plugin wrote as one line of JSON."""
    number, _ = launch(daemon, script)
    line = daemon.tell("line", number=number)
    daemon.tell("end", number=number)
    assert line[:1] in ("[", "{"), line
    return json.loads(line)


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
@pytest.mark.req("G-19")
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


@pytest.mark.req("G-38")
def test_of_all_installed_plugins_only_its_own_files_exist_for_it_even_new_ones(daemon: Daemon) -> None:
    script = "import json, os; print(json.dumps([os.getcwd(), os.listdir('..')]))"
    where, around = said(daemon, script)
    assert around == [Path(where).name]
    assert len([path for path in daemon.folder.iterdir() if path.name.startswith("plugin-")]) > 1


@pytest.mark.req("G-38")
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


@pytest.mark.req("G-38")
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


@pytest.mark.req("G-49")
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


@pytest.mark.req("G-49")
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


@pytest.mark.req("G-49")
def test_a_warm_plugin_that_eats_memory_is_ended_for_that_reason(daemon: Daemon) -> None:
    number, pid = launch(daemon, "eaten = []\nwhile True: eaten.append(bytearray(1 << 22))", memory_bytes=64 << 20)
    assert is_warm(pid)
    ended = daemon.tell("end", number=number)
    if daemon.tell("mechanisms")["memory"].startswith("cgroup"):
        assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "memory")
    else:
        assert ended["code"] == 1 or ended["cause"] == "memory"
    assert launched_warm(daemon), "the zygote has nothing to do with it"


@pytest.mark.req("G-38")
def test_a_signal_reaches_a_warm_plugin_and_its_end_takes_everything_with_it(daemon: Daemon) -> None:
    script = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n" + FOREVER
    number, pid = launch(daemon, script)
    assert is_warm(pid)
    assert daemon.tell("line", number=number) == "ready"
    inside = family(pid)
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
    assert eventually(lambda: len(children(zygote)) == 2)
    for spare in children(zygote):
        if pid not in family(spare):
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
        surroundings=Surroundings(python="/usr/bin/python3"),
        machine=DiskMachine(),
    )


async def ended(process: CagedProcess) -> Exit:
    process.kill()
    how = await process.wait()
    for descriptor in (process.stdin, process.stdout, process.stderr):
        os.close(descriptor)
    return how


def test_zygotes_that_fail_twice_in_a_row_are_left_alone_and_plugins_start_cold(daemon: Daemon) -> None:
    for _ in range(2):
        number, _ = launch(daemon, "pass")
        daemon.tell("end", number=number)
        (outer,) = cages(daemon)
        kill_hard(outer)
        assert eventually(lambda: not cages(daemon))
    for _ in range(3):
        assert not launched_warm(daemon)
    assert not cages(daemon)


def cages(daemon: Daemon) -> set[int]:
    """The outermost process of each."""
    return {*children(daemon.warden)} & {*daemon.in_cages()}


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


@pytest.mark.req("G-38")
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
    assert eventually(lambda: open_things(daemon) == before)


def test_when_the_daemon_ends_no_group_is_left_in_the_kernel() -> None:
    with open_daemon(warm=True) as daemon:
        warm_up(daemon)
        warden = daemon.warden
        assert eventually(lambda: bool(groups_of(warden)))
    assert not groups_of(warden)


def groups_of(warden: int) -> list[str]:
    """What the kernel holds for a warden; a spare copy has its group before it is wanted."""
    # Walked in a way that does not mind what comes and goes meanwhile: others have groups too.
    names = [name for _, found, _ in os.walk("/sys/fs/cgroup") for name in found if name.startswith("paddock-")]
    return [name for name in names if name.split("-")[2] == str(warden)]


def open_things(daemon: Daemon) -> list[int]:
    """Descriptors and mounts of the warden, and the processes below it."""
    descriptors = list(Path(f"/proc/{daemon.warden}/fd").iterdir())
    mounts = Path(f"/proc/{daemon.warden}/mounts").read_text().splitlines()
    return [len(descriptors), len(mounts), len(daemon.everything())]

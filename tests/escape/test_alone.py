"""Attempts that need a cage of their own: they fill it, outlive it, or prepare a trap for what comes after it."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cage import daemons
from tests.cage.daemons import Daemon, gone
from tests.escape.edits import NO_PID_NAMESPACE, Removal, without
from tests.escape.stage import SECRET, UNHELD, Scene, attempts_for, caging, scene, try_in_cage

from paddock.cage.plan.granted_paths import GrantRoots, PathRejected, resolve_granted_path
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.manifest.capability import FileAccess, parse_capability

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "cage.md"
DECISION = DOCS / "design" / "0006-cage-spec-and-warden.md"

# Ignores every signal it can, gives up its streams, and has children that nobody knows.
SURVIVOR = """
import os, signal, time
for number in set(range(1, 65)) - {signal.SIGCHLD}:
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(3): os.close(number)
            while True: time.sleep(60)
        os._exit(0)
    os.wait()
print("ready", flush=True)
while True: time.sleep(60)
"""
KEPT = 42  # how a plugin ends that could keep its memory
# Memory that no process is seen to hold: shared, filled, and then let go of without being given back.
HIDDEN_MEMORY = """
import mmap, time
held = []
for _ in range(24):
    area = mmap.mmap(-1, 16 << 20)
    for place in range(0, 16 << 20, 4096): area[place] = 1
    area.madvise(mmap.MADV_DONTNEED)
    held.append(area)
time.sleep(2)
raise SystemExit(42)
"""
# The same, but what is left mapped does not even tell how large it was.
UNMAPPED_MEMORY = HIDDEN_MEMORY.replace("area.madvise(mmap.MADV_DONTNEED)", "area.resize(4096)")
PLAIN_MEMORY = """
import time
held = [bytearray(b"x") * (16 << 20) for _ in range(24)]
time.sleep(2)
raise SystemExit(42)
"""


def ended_for_memory(daemon: Daemon, script: str) -> bool:
    """Whether a plugin was ended when it took three times the memory that it may have."""
    ended = daemon.tell("end", number=daemon.launch(script, memory_bytes=128 << 20))
    # One process alone also runs against the limit that it carries itself, and then Python ends by an error.
    assert ended["code"] in (KEPT, 1) or ended["cause"] == "memory", ended
    return ended["code"] != KEPT


@pytest.fixture(params=["root", "ordinary user"])
def around(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene(ordinary=request.param != "root") as around:
        yield around


@pytest.fixture(params=["cold", "warm"])
def daemon(request: pytest.FixtureRequest, around: Scene) -> Iterator[Daemon]:
    with caging(ordinary=around.ordinary, warm=request.param == "warm") as daemon:
        yield daemon


@pytest.fixture
def cold(around: Scene) -> Iterator[Daemon]:
    with caging(ordinary=around.ordinary, warm=False) as daemon:
        yield daemon


def test_no_process_survives_the_kill_of_its_cage_whatever_it_did(daemon: Daemon) -> None:
    told = daemon.tell("launch", script=SURVIVOR, limits={}, capabilities=[])
    assert daemon.tell("line", number=told["number"]) == "ready"
    cage = Path(f"/proc/{told['pid']}/ns/pid").readlink()
    inside = [pid for pid in daemon.everything() if Path(f"/proc/{pid}/ns/pid").readlink() == cage]
    assert len(inside) == 5, "the first process, the plugin, and three that were to be forgotten"
    daemon.tell("kill", number=told["number"])
    assert daemon.tell("end", number=told["number"])["signal"] == signal.SIGKILL
    assert gone(inside, within=0)


def test_without_a_pid_namespace_such_a_process_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder, scene(ordinary=True):
        Path(folder).chmod(0o755)
        removal = Removal("the pid namespace", NO_PID_NAMESPACE, ())
        monkeypatch.setattr(daemons, "SOURCES", without(removal, Path(folder)))
        with caging(ordinary=True, warm=False) as daemon:
            number = daemon.launch(SURVIVOR)
            assert daemon.tell("line", number=number).startswith("ready")
            inside = [pid for pid in daemon.everything() if pid != daemon.warden]
            daemon.tell("signal", number=number, which=signal.SIGKILL)
            try:
                assert not gone(inside, within=1)
            finally:
                for pid in inside:
                    if Path(f"/proc/{pid}").exists():
                        os.kill(pid, signal.SIGKILL)


def test_no_plugin_holds_more_memory_than_it_may(daemon: Daemon) -> None:
    assert ended_for_memory(daemon, PLAIN_MEMORY)


def test_memory_that_no_process_is_seen_to_hold_counts_all_the_same(daemon: Daemon) -> None:
    assert ended_for_memory(daemon, HIDDEN_MEMORY)


def test_unmapped_memory_counts_where_a_group_holds_it_and_the_documentation_says_where_not(daemon: Daemon) -> None:
    if daemon.tell("mechanisms")["memory"].startswith("cgroup"):
        assert ended_for_memory(daemon, UNMAPPED_MEMORY)
    else:
        # Only what a process has mapped can be seen from outside.
        assert not ended_for_memory(daemon, UNMAPPED_MEMORY)
        assert "memory where no control group holds it" in PAGE.read_text(encoding="utf-8")


def test_a_link_that_a_plugin_leaves_in_its_tree_is_not_followed_by_the_next_grant(around: Scene, cold: Daemon) -> None:
    trap = around.write / "trap"
    number = cold.launch(
        f"import os; os.symlink({str(around.folder)!r}, {str(trap)!r}); print('set', flush=True)",
        f"write:fs:{around.write}",
    )
    assert cold.tell("line", number=number) == "set"
    cold.tell("end", number=number)
    grant = parse_capability(f"read:fs:{trap}")
    assert isinstance(grant, FileAccess)
    with pytest.raises(PathRejected) as refused:
        resolve_granted_path(grant, GrantRoots(), (), DiskFilesystem())
    assert refused.value.problem.code == "cage.link_escapes"


@pytest.mark.req("G-38", "files")
def test_what_one_plugin_leaves_in_its_own_places_the_next_does_not_find(daemon: Daemon) -> None:
    leave = """
import os, socket
for place in ("/tmp", "/dev/shm"): open(place + "/left", "w").write("here")
print("left", flush=True)
input()
"""
    look = """
import os
print(os.path.exists("/tmp/left") or os.path.exists("/dev/shm/left"), flush=True)
"""
    first = daemon.launch(leave)
    assert daemon.tell("line", number=first) == "left"
    second = daemon.launch(look)
    assert daemon.tell("line", number=second) == "False"
    for number in (first, second):
        daemon.tell("kill", number=number)
        daemon.tell("end", number=number)


def test_no_process_of_a_cage_shows_the_daemons_secret_to_anybody(daemon: Daemon) -> None:
    before = set(daemon.everything())
    number = daemon.launch("print('ready', flush=True); input()")
    assert daemon.tell("line", number=number) == "ready"
    for pid in set(daemon.everything()) - before:
        shown = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        assert SECRET.encode() not in shown
    daemon.tell("kill", number=number)
    daemon.tell("end", number=number)


def test_no_process_of_a_cage_holds_a_place_of_the_host_open(daemon: Daemon) -> None:
    # With a descriptor of a directory outside, whoever can use it would climb from there to everything.
    told = daemon.tell("launch", script="print('ready', flush=True); input()", limits={}, capabilities=[])
    assert daemon.tell("line", number=told["number"]) == "ready"
    cage = Path(f"/proc/{told['pid']}/ns/pid").readlink()
    inside = [pid for pid in daemon.everything() if Path(f"/proc/{pid}/ns/pid").readlink() == cage]
    held = {str(one.readlink()) for pid in inside for one in Path(f"/proc/{pid}/fd").iterdir()}
    assert len(inside) == 2, "the first process and the plugin"
    assert [one for one in held if not one.startswith(("pipe:", "anon_inode:"))] == []
    daemon.tell("kill", number=told["number"])
    daemon.tell("end", number=told["number"])


def test_what_a_cage_does_not_hold_is_written_down(around: Scene, cold: Daemon) -> None:
    outcomes = try_in_cage(cold, around, [one for one in attempts_for("granted") if one in UNHELD], granted=True)
    assert {sentence: outcome.told for sentence, outcome in outcomes.items() if not outcome.out} == {}, "it is held now"
    assert outcomes.keys() == UNHELD.keys(), "each was really tried"
    for document in (PAGE, DECISION):
        _, _, unheld = document.read_text(encoding="utf-8").partition("## What this does not buy us")
        assert [words for words in UNHELD.values() if words not in " ".join(unheld.split())] == [], document.name


def test_many_files_fill_a_disk_and_the_documentation_says_so(around: Scene, cold: Daemon) -> None:
    # One file is bounded, their number is not: nothing but the disk, or a quota of the operator's, bounds a tree.
    script = f"""
for number in range(3):
    with open({str(around.write)!r} + f"/part-{{number}}", "wb") as file: file.truncate(1 << 20)
print("three times as much as one file may have", flush=True)
"""
    number = cold.launch(script, f"write:fs:{around.write}", write_bytes=1 << 20)
    assert cold.tell("line", number=number).startswith("three times")
    cold.tell("end", number=number)
    assert "disk of a tree it may write to" in PAGE.read_text(encoding="utf-8")

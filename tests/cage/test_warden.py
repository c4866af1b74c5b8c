"""Real plugins in real cages, started and ended by a real warden, for a daemon that is root and for one that is not."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cage.daemons import Daemon, eventually, gone, kill_hard, open_daemon

from paddock.cage.process_tree import children

FOREVER = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"


@pytest.fixture(params=["root", "ordinary user"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with open_daemon(ordinary=request.param == "ordinary user") as daemon:
        yield daemon


@pytest.fixture
def root_daemon() -> Iterator[Daemon]:
    with open_daemon() as daemon:
        yield daemon


def running(daemon: Daemon, script: str = FOREVER, *capabilities: str, **limits: object) -> int:
    """A plugin that has said its first line."""
    number = daemon.launch(script, *capabilities, **limits)
    assert daemon.tell("line", number=number) == "ready"
    return number


@pytest.mark.req("G-19")
def test_a_plugin_runs_and_what_it_said_and_how_it_ended_come_back(daemon: Daemon) -> None:
    number = daemon.launch("import os, sys\nprint(os.getuid(), os.getpid(), flush=True)\nsys.exit(7)")
    assert daemon.tell("line", number=number) == "65534 2"
    assert daemon.tell("end", number=number) == {"code": 7, "signal": None, "cause": "", "details": {}}


@pytest.mark.req("G-19")
def test_a_signal_reaches_the_plugins_own_process_and_its_death_is_told_as_a_signal(daemon: Daemon) -> None:
    number = running(daemon)
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    ended = daemon.tell("end", number=number)
    assert (ended["code"], ended["signal"], ended["cause"]) == (None, signal.SIGTERM, "")


@pytest.mark.req("G-19")
def test_an_exit_code_above_128_is_not_told_as_a_signal_where_the_kernel_knows_better(daemon: Daemon) -> None:
    ended = daemon.tell("end", number=daemon.launch("import sys\nsys.exit(137)"))
    knows = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)
    assert (ended["code"], ended["signal"]) == ((137, None) if knows else (None, 9))


def test_a_plugin_may_handle_a_signal_and_end_in_order(daemon: Daemon) -> None:
    script = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(3))\n" + FOREVER
    number = running(daemon, script)
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    assert daemon.tell("end", number=number)["code"] == 3


@pytest.mark.req("G-23")
def test_a_plugin_that_ignores_the_polite_signal_does_not_survive_a_kill(daemon: Daemon) -> None:
    script = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + FOREVER
    number = running(daemon, script)
    daemon.tell("signal", number=number, which=signal.SIGTERM)
    inside = daemon.in_cages()
    daemon.tell("kill", number=number)
    ended = daemon.tell("end", number=number)
    assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "killed")
    assert gone(inside, within=0)


@pytest.mark.req("G-38")
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


@pytest.mark.req("G-38")
def test_a_plugin_cannot_signal_its_neighbour(daemon: Daemon) -> None:
    neighbour = daemon.tell("launch", script=FOREVER, limits={}, capabilities=[])
    script = f"""
import contextlib
import os
import resource
def attempt(pid):
    try: os.kill(pid, 9)
    except OSError as error: return type(error).__name__
    return "killed"
print(attempt({neighbour["pid"]}), flush=True)
"""
    number = daemon.launch(script)
    assert daemon.tell("line", number=number) == "ProcessLookupError"
    assert daemon.tell("line", number=neighbour["number"]) == "ready"


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


@pytest.mark.req("G-38")
def test_when_the_daemon_is_killed_nothing_is_left_two_seconds_later(daemon: Daemon) -> None:
    for _ in range(3):
        running(daemon)
    left = daemon.everything()
    assert len(daemon.in_cages()) == 3 * 3
    kill_hard(daemon.process.pid)
    assert gone(left, within=2)


def test_when_the_daemon_is_killed_while_it_launches_nothing_is_left_either(daemon: Daemon) -> None:
    running(daemon)
    for _ in range(3):
        daemon.ask("launch", script=FOREVER, limits={}, capabilities=[])
    assert eventually(lambda: len(daemon.everything()) > 4)
    left = daemon.everything()
    kill_hard(daemon.process.pid)
    assert gone(left, within=2)


def test_when_the_warden_is_killed_its_plugins_are_gone_and_the_next_launch_has_a_new_one(daemon: Daemon) -> None:
    first, second = running(daemon), running(daemon)
    old, left = daemon.warden, daemon.everything()
    kill_hard(old)
    for number in (first, second):
        ended = daemon.tell("end", number=number)
        assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "warden_lost")
    assert gone(left, within=2)
    third = running(daemon)
    assert daemon.warden != old
    daemon.tell("kill", number=third)
    daemon.tell("end", number=third)


def test_a_warden_that_dies_again_and_again_is_not_started_for_ever(root_daemon: Daemon) -> None:
    for _ in range(5):
        running(root_daemon)
        kill_hard(root_daemon.warden)
        assert eventually(lambda: not root_daemon.everything())
    assert root_daemon.refusal(FOREVER)["refused"] == "cage.warden_failed"


def test_fifty_launches_leave_nothing_behind(daemon: Daemon) -> None:
    daemon.tell("end", number=running(daemon, "print('ready')"))
    warden = daemon.warden
    before = (daemon.tell("descriptors"), descriptors(warden), mounts(warden))
    asked = [daemon.ask("launch", script="print('ready')", limits={}, capabilities=[]) for _ in range(50)]
    for number in [daemon.answer(question)["number"] for question in asked]:
        assert daemon.tell("end", number=number)["code"] == 0
    assert (daemon.tell("descriptors"), descriptors(warden), mounts(warden)) == before
    assert daemon.in_cages() == [] and daemon.warden == warden
    assert not groups_of(warden)


def test_a_launch_that_is_given_up_half_way_leaves_nothing_behind(daemon: Daemon) -> None:
    daemon.tell("end", number=running(daemon, "print('ready')"))
    warden = daemon.warden
    before = (daemon.tell("descriptors"), descriptors(warden), mounts(warden))
    given_up = [daemon.tell("give_up", script=FOREVER, after=0.002 * step) for step in range(12)]
    assert "cancelled" in given_up
    assert eventually(lambda: daemon.in_cages() == [])
    assert eventually(lambda: (daemon.tell("descriptors"), descriptors(warden), mounts(warden)) == before)
    assert not groups_of(warden)


@pytest.mark.req("G-19")
def test_without_free_descriptors_a_launch_is_refused_and_the_daemon_lives_on(daemon: Daemon) -> None:
    running(daemon)
    before = daemon.tell("descriptors")
    for free in (0, 2, 4, 6):
        refused = daemon.tell("launch_with_descriptors", script=FOREVER, free=free)
        assert refused.get("refused") == "cage.no_descriptors", (free, refused)
        assert "ulimit -n" in refused["hint"]
    assert daemon.tell("descriptors") == before
    running(daemon)


def test_a_tree_that_only_root_can_reach_is_read_and_written_and_stays_roots(root_daemon: Daemon) -> None:
    tree = root_daemon.folder / "private" / "tree"
    tree.mkdir(parents=True, mode=0o700)
    tree.parent.chmod(0o700)
    (tree / "old").write_text("old")
    (tree / "old").chmod(0o600)
    script = f"""
from pathlib import Path
tree = Path({str(tree)!r})
(tree / "new").write_text((tree / "old").read_text() + " and new")
print("ready", flush=True)
"""
    number = running(root_daemon, script, f"write:fs:{tree}", f"read:fs:{tree}")
    assert root_daemon.tell("end", number=number)["code"] == 0
    assert (tree / "new").read_text() == "old and new"
    assert (tree / "new").stat().st_uid == os.geteuid()


def test_a_tree_that_cannot_be_shown_under_another_owner_is_refused_with_a_hint() -> None:
    with open_daemon(prepare='mkdir "$1/odd" && mount -t ramfs none "$1/odd"') as daemon:
        tree = daemon.folder / "odd"
        refused = daemon.refusal(FOREVER, f"write:fs:{tree}")
        assert refused["refused"] == "cage.idmap_unsupported"
        assert str(tree) in refused["message"]
        assert "65534" in refused["hint"]
        running(daemon)


def test_what_is_written_below_a_mount_in_a_granted_tree_reaches_the_file_system_that_is_mounted_there() -> None:
    with open_daemon(prepare='mkdir -p "$1/tree/disk" && mount -t tmpfs none "$1/tree/disk"') as daemon:
        tree = daemon.folder / "tree"
        script = f"""
from pathlib import Path
Path({str(tree / "disk" / "new")!r}).write_text("kept")
print("ready", flush=True)
"""
        number = running(daemon, script, f"write:fs:{tree}")
        assert daemon.tell("end", number=number)["code"] == 0
        mounted = Path(f"/proc/{daemon.process.pid}/root{tree}/disk/new")
        assert (mounted.read_text(), mounted.stat().st_uid) == ("kept", os.geteuid())


def test_a_tree_in_which_something_is_mounted_that_cannot_be_shown_is_refused_as_well() -> None:
    with open_daemon(prepare='mkdir -p "$1/tree/odd" && mount -t ramfs none "$1/tree/odd"') as daemon:
        refused = daemon.refusal(FOREVER, f"write:fs:{daemon.folder / 'tree'}")
        assert refused["refused"] == "cage.idmap_unsupported"
        assert str(daemon.folder / "tree") in refused["message"]
        running(daemon)


@pytest.mark.parametrize(
    "unusable",
    [
        "mount -t tmpfs -o ro none /run",
        "mount -t tmpfs -o mode=700 none /run",
        # Nothing can be made anywhere: something empty is covered.
        'mount -t tmpfs -o ro none /run && mount --bind "$1" "$1" && mount --rbind /tmp /tmp'
        " && mount -o remount,bind,ro /tmp && mount --bind /var/tmp /var/tmp && mount -o remount,bind,ro /var/tmp"
        " && mount -t tmpfs none /mnt",
    ],
)
def test_a_root_daemon_starts_plugins_where_run_cannot_be_used_and_leaves_nothing_behind(unusable: str) -> None:
    with open_daemon(prepare=unusable) as daemon:
        assert daemon.tell("end", number=running(daemon, "print('ready', flush=True)"))["code"] == 0
        warden = daemon.warden
    for place in ("/run", "/tmp", "/var/tmp"):
        assert not Path(f"{place}/paddock-cages-{warden}").exists()


def test_a_root_daemon_that_may_not_mount_says_so_every_time_and_what_to_do() -> None:
    with open_daemon(prepare='shift && exec setpriv --bounding-set=-sys_admin -- "$@"') as daemon:
        for _ in range(7):
            refused = daemon.refusal(FOREVER)
            assert refused["refused"] == "cage.staging_failed"
            assert "CAP_SYS_ADMIN" in refused["hint"]


def test_a_machine_without_groups_is_survived() -> None:
    with open_daemon(prepare="mount -t tmpfs none /sys/fs/cgroup") as without:
        running(without)
        assert without.tell("mechanisms")["memory"] == "rlimits and a watchdog"


# A file system in user space whose program never says a word.
HANGING = """
import ctypes, os, sys, time
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
assert ctypes.CDLL(None).mount(b"hangs", os.fsencode(sys.argv[1]), b"fuse", 0, options) == 0
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.req("G-19")
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


@pytest.mark.req("G-19")
def test_what_is_gone_by_the_time_of_the_launch_refuses_that_plugin_alone(daemon: Daemon) -> None:
    lost = daemon.folder / "lost"
    lost.mkdir()
    told = daemon.tell("launch", script=FOREVER, limits={}, capabilities=[f"read:fs:{lost}"], remove=str(lost))
    assert (told["refused"], str(lost) in told["message"]) == ("cage.path_missing", True)
    running(daemon)


def test_what_a_killed_warden_left_in_the_kernel_is_cleared_away_by_the_next(root_daemon: Daemon) -> None:
    running(root_daemon)
    old = root_daemon.warden
    assert groups_of(old)
    kill_hard(old)
    assert eventually(lambda: not root_daemon.everything())
    running(root_daemon)
    assert not groups_of(old)


def test_the_warden_is_ready_soon_and_stays_small(daemon: Daemon) -> None:
    running(daemon)
    status = Path(f"/proc/{daemon.warden}/status").read_text()
    held = {line.split(":")[0]: line.split() for line in status.splitlines()}
    assert held["Threads"][1] == "1"
    assert int(held["VmRSS"][1]) < 64 * 1024


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


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def mounts(pid: int) -> int:
    return len(Path(f"/proc/{pid}/mounts").read_text().splitlines())


def groups_of(warden: int) -> list[Path]:
    # Walked in a way that does not mind what comes and goes meanwhile: others have groups too.
    found = [Path(place, name) for place, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    return [group for group in found if group.name.startswith("paddock-") and group.name.split("-")[2] == str(warden)]


def test_half_a_bubblewrap_that_a_killed_warden_left_is_ended_by_the_next(root_daemon: Daemon) -> None:
    others, abandoned = half_a_bubblewrap("/bin/other.py"), half_a_bubblewrap("/.cage/trampoline.py")
    try:
        running(root_daemon)
        assert gone([abandoned], within=10)
        assert not gone([others], within=0), "what only looks like it is not ours to end"
    finally:
        for pid in (others, abandoned):
            with contextlib.suppress(ProcessLookupError):
                kill_hard(pid)


def half_a_bubblewrap(word: str) -> int:
    """The inner process of one whose outer is killed; without --die-with-parent it stays."""
    words = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--", "sh", "-c", "sleep 600", word]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as outer:
        assert eventually(lambda: bool(children(outer.pid)))
        (inner,) = children(outer.pid)
        assert eventually(lambda: bool(children(inner)))
        kill_hard(outer.pid)
    return inner


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


def test_a_warden_without_free_descriptors_refuses_and_keeps_the_cages_it_has(root_daemon: Daemon) -> None:
    kept = running(root_daemon)
    warden, before = root_daemon.warden, descriptors(root_daemon.warden)
    _, most = resource.prlimit(warden, resource.RLIMIT_NOFILE)
    for free in range(40):
        # One more each time, so that they run out at every single step of a launch.
        resource.prlimit(warden, resource.RLIMIT_NOFILE, (before + free, most))
        told = root_daemon.tell("launch", script=FOREVER, limits={}, capabilities=[])
        if "number" in told:
            break
        assert told["refused"] == "cage.no_descriptors", (free, told)
        # One fewer when whoever looks at places for it was part of what failed.
        assert eventually(lambda: descriptors(warden) in (before - 1, before))
    assert "number" in told
    root_daemon.tell("kill", number=kept)
    assert root_daemon.tell("end", number=kept)["cause"] == "killed"
    assert root_daemon.warden == warden


@pytest.mark.slow
def test_a_cage_that_never_gets_ready_is_given_up_after_twenty_seconds(daemon: Daemon) -> None:
    began = time.monotonic()
    told = daemon.tell("launch_something_that_never_gets_ready")
    assert (told["refused"], 19 < time.monotonic() - began < 25) == ("cage.launch_timeout", True)
    assert daemon.in_cages() == []
    running(daemon)


def test_even_the_very_first_launch_may_run_out_of_descriptors(daemon: Daemon) -> None:
    told: dict[str, object] = {}
    for free in range(60):
        told = daemon.tell("launch_with_descriptors", script=FOREVER, free=free)
        if "number" in told:
            break
        assert told["refused"] == "cage.no_descriptors", (free, told)
    assert "number" in told


def test_root_of_a_container_builds_cages_as_an_ordinary_user_does() -> None:
    with open_daemon(ordinary=True, contained=True) as daemon:
        number = daemon.launch("import os\nprint(os.getuid(), flush=True)")
        assert daemon.tell("line", number=number) == "65534"
        assert daemon.tell("end", number=number)["code"] == 0

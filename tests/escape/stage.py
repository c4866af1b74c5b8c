"""The outside of an attempt: what a plugin could reach if it got out, and a daemon that cages it.

A `Scene` has something to lose: files, listeners, processes, segments of memory. It is set up once, and everything in
it belongs to the user that the cages run as, so that nothing but a wall keeps a plugin from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cage.daemons import ORDINARY, PATIENCE, Daemon, open_daemon, python_for_everyone
from tests.cage.refused_calls import REFUSALS, REFUSED_NUMBERS
from tests.escape.probe import doors, identity, processes, programs, resources, sockets, trees, trying, view

from paddock.cage.confine.syscall_numbers import NEWEST_KNOWN_NUMBER, SYSCALL_NUMBERS
from paddock.cage.spec import ResourceLimits

NOBODY = 65534
OTHER = 4242  # one more user that nobody is
SECRET = "only-the-daemon-knows"
ROOMS = (view, programs, processes, sockets, identity, resources, doors, trees)
COLUMN = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
LIMITS = ResourceLimits(tmp_bytes=8 << 20, write_bytes=16 << 20, open_files=200, pids=60)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
MQ_OPEN = (240, 180)[COLUMN]
KEYCTL, ADD_KEY = ((250, 219)[COLUMN], (248, 217)[COLUMN])
_KEY_OWNER = """
import ctypes, time
libc = ctypes.CDLL(None)
session = -3
made = libc.syscall({keyctl}, 1, None) > 0 and libc.syscall({add_key}, b"user", {name!r}, b"x", 1, session) > 0
print("ready" if made else "failed", flush=True)
time.sleep(600)
"""
_FAREWELL = b"nobody is there any more"
WAITING = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"

DOORS = [f"call {name}" for name in sorted(REFUSALS) if REFUSED_NUMBERS[name][COLUMN] is not None]

# What gets out, and what the documentation says about it.
UNHELD = {
    "rewrite a set-user-id program of the host in memory": "set-user-id programs in a tree it may write to",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt ended: whether it got out, and what it got or what stopped it."""

    out: bool
    told: str


class Scene:
    """Everything that is there to be reached, for cages that run as this user."""

    def __init__(self, folder: Path, daemon_user: int, cage_user: int) -> None:
        self.folder = folder
        self.ordinary = daemon_user != 0
        self.read, self.write, self.secret_file = folder / "read", folder / "write", folder / "secret.txt"
        self._daemon_user = daemon_user
        self._cage_user = cage_user
        self._closing = contextlib.ExitStack()
        self.facts: dict[str, Any] = {
            "secret": SECRET,
            "secret_file": str(self.secret_file),
            "read": str(self.read),
            "write": str(self.write),
            "namespaces": {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES},
            "numbers": {name: row[COLUMN] for name, row in (SYSCALL_NUMBERS | REFUSED_NUMBERS).items()}
            | {"mq_open": MQ_OPEN},
            "refusals": REFUSALS,
            "newest": NEWEST_KNOWN_NUMBER,
            **{name: getattr(LIMITS, name) for name in ("tmp_bytes", "write_bytes", "open_files", "pids")},
        }

    def __enter__(self) -> Scene:
        self._lay_out_files()
        self._closing.callback(shutil.rmtree, self.folder)
        self._listen()
        self._share_memory()
        as_cage = {"user": self._cage_user, "group": self._cage_user, "extra_groups": []} if os.geteuid() == 0 else {}
        # It has a key in its session, as the daemon of somebody who signed in does.
        self.facts["key_name"] = f"paddock-escape-key-{os.getpid()}-{self._cage_user}"
        program = _KEY_OWNER.format(keyctl=KEYCTL, add_key=ADD_KEY, name=self.facts["key_name"].encode())
        victim = subprocess.Popen([python_for_everyone(), "-I", "-S", "-c", program], stdout=subprocess.PIPE, **as_cage)
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n", "no key could be made"
        self._closing.callback(_end, victim)
        self.facts["victim"] = victim.pid
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _lay_out_files(self) -> None:
        self.folder.chmod(0o755)
        self.secret_file.write_text("what only the host should know")
        for place in (self.read, self.write):
            place.mkdir()
            shutil.copy("/usr/bin/true", place / "program")
        (self.read / "today.md").write_text("shown")
        (self.read / "way-out").symlink_to(self.secret_file)
        os.mkfifo(self.read / "door")
        (self.read / "door").chmod(0o666)
        # Somebody waits at its other end.
        self._closing.callback(os.close, os.open(self.read / "door", os.O_RDWR | os.O_NONBLOCK))
        for name in ("powerful", "powerful-too"):
            shutil.copy("/usr/bin/true", self.write / name)
        if os.geteuid() == 0:
            for place in (self.read, self.write):
                os.mknod(place / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
                (place / "device").chmod(0o666)
            for path in (self.read, *self.read.iterdir(), self.write, *self.write.iterdir()):
                os.chown(path, self._daemon_user, self._daemon_user, follow_symlinks=False)
            (self.read / "private").write_text("root's own")
            (self.read / "private").chmod(0o600)
            (self.write / "others").write_text("another user's own")
            (self.write / "others").chmod(0o600)
            os.chown(self.write / "others", OTHER, OTHER)
        for name in ("powerful", "powerful-too"):
            (self.write / name).chmod(0o4755)

    def _listen(self) -> None:
        tcp = self._closing.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = self._closing.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        echo = threading.Thread(target=_echo, args=(udp,))
        echo.start()
        # It has ended before its socket is closed: the next file would have the same number, and be read by it.
        self._closing.callback(echo.join)
        self._closing.callback(udp.sendto, _FAREWELL, udp.getsockname())
        name = f"paddock-escape-{os.getpid()}-{self._cage_user}"
        self.facts |= {"tcp_port": tcp.getsockname()[1], "udp_port": udp.getsockname()[1], "abstract": name}
        for address, kind in (
            ("\0" + name, socket.SOCK_STREAM),
            ("\0" + name + "-datagrams", socket.SOCK_DGRAM),
            (str(self.read / "service"), socket.SOCK_STREAM),
            (str(self.read / "datagrams"), socket.SOCK_DGRAM),
        ):
            listener = self._closing.enter_context(socket.socket(socket.AF_UNIX, kind))
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            if not address.startswith("\0"):
                Path(address).chmod(0o777)

    def _share_memory(self) -> None:
        """A segment, a queue and semaphores of System V that everybody may use."""
        libc, key, everybody = ctypes.CDLL(None, use_errno=True), 0x70616400 + os.getpid() % 251, 0o1666
        ids = (
            (libc.shmget(key, ctypes.c_size_t(4096), everybody), lambda number: libc.shmctl(number, 0, None)),
            (libc.msgget(key, everybody), lambda number: libc.msgctl(number, 0, None)),
            (libc.semget(key, 1, everybody), lambda number: libc.semctl(number, 0, 0)),
        )
        for number, remove in ids:
            assert number >= 0, os.strerror(ctypes.get_errno())
            self._closing.callback(remove, number)
        self.facts["shared_key"] = key


@contextlib.contextmanager
def scene(*, ordinary: bool) -> Iterator[Scene]:
    """A scene for the cages of a root daemon, or of an ordinary user's."""
    me = os.geteuid()
    daemon_user = me if me != 0 else ORDINARY if ordinary else 0
    cage_user = daemon_user or NOBODY
    # Not below /tmp, which a cage has of its own whatever is shown to it.
    with Scene(Path(tempfile.mkdtemp(prefix="paddock-escape-", dir="/var/tmp")), daemon_user, cage_user) as made:
        yield made


@contextlib.contextmanager
def caging(*, ordinary: bool, warm: bool) -> Iterator[Daemon]:
    """A daemon that has a secret in its environment; when warm, its next plugin comes from a zygote."""
    with open_daemon(ordinary=ordinary, warm=warm, prepare=f"export DAEMON_SECRET={SECRET}") as daemon:
        if warm:
            deadline = time.monotonic() + PATIENCE
            while not _started_warm(daemon):
                assert time.monotonic() < deadline, "no plugin is ever started warm"
        yield daemon


def try_in_cage(
    daemon: Daemon, scene: Scene, wanted: Iterable[str], *, granted: bool = False, warm: bool = False
) -> dict[str, Outcome]:
    """Try these attempts in one new cage beside a neighbour's, and tell how each ended."""
    neighbour = daemon.tell("launch", script=WAITING, limits={}, capabilities=[])
    assert "number" in neighbour, neighbour
    assert daemon.tell("line", number=neighbour["number"]) == "ready"
    namespaces = {kind: str(Path(f"/proc/{neighbour['pid']}/ns/{kind}").readlink()) for kind in NAMESPACES}
    facts = {
        **scene.facts,
        "neighbour": neighbour["pid"],
        "neighbour_file": str(daemon.folder / f"plugin-{neighbour['number']}" / "plugin.py"),
        "neighbours_namespaces": namespaces,
    }
    capabilities = [f"read:fs:{scene.read}", f"write:fs:{scene.write}"] if granted else []
    limits = {name: getattr(LIMITS, name) for name in ("tmp_bytes", "write_bytes", "open_files", "pids")}
    told = daemon.tell("launch", script=script(wanted, facts), limits=limits, capabilities=capabilities)
    assert "number" in told, told
    if warm:
        assert is_warm(told["pid"])
    outcomes: dict[str, Outcome] = {}
    while (line := daemon.tell("line", number=told["number"])) != "over":
        said = json.loads(line)
        outcomes[said["attempt"]] = Outcome(said["out"], said["told"])
    for number in (told["number"], neighbour["number"]):
        daemon.tell("kill", number=number)
        daemon.tell("end", number=number)
    return outcomes


def attempts_for(way: str) -> list[str]:
    """Everything that is tried in one kind of cage: plain ones (cold, warm), or one with granted trees."""
    rooms = (trees, view, programs) if way == "granted" else tuple(room for room in ROOMS if room is not trees)
    found = [sentence for room in rooms for sentence in room.room.attempts]
    return found if way == "granted" else [*found, *DOORS]


def script(wanted: Iterable[str], facts: dict[str, Any]) -> str:
    """The plugin: every room's text, and which attempts of them to try."""
    texts = {room.__name__.rpartition(".")[2]: Path(room.__file__ or "").read_text() for room in (trying, *ROOMS)}
    return f"""
import os, sys, types
here = [int(name) for name in os.listdir("/proc/self/fd")]
def is_open(number):
    try: os.fstat(number)
    except OSError: return False
    return True
at_start = [number for number in here if is_open(number)]
sys.modules["probe"] = types.ModuleType("probe")
attempts = {{}}
for name, text in {texts!r}.items():
    module = sys.modules["probe." + name] = types.ModuleType("probe." + name)
    module.__package__ = "probe"
    exec(compile(text, name, "exec"), module.__dict__)
    if hasattr(module, "room"): attempts |= module.room.attempts
attempts |= sys.modules["probe.doors"].doors({sorted(REFUSALS)!r})
facts = {facts!r} | {{
    "at_start": at_start, "own_folder": os.environ["PADDOCK_PLUGIN_DIR"], "python": os.path.realpath(sys.executable)}}
for line in sys.modules["probe.trying"].try_all(attempts, {list(wanted)!r}, facts):
    print(line, flush=True)
print("over", flush=True)
sys.stdin.read()
"""


def is_warm(pid: int) -> bool:
    """Whether a plugin came from a zygote: then the first process of its cage is not bubblewrap."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Path(f"/proc/{status['PPid']}/comm").read_text().strip() != "bwrap"


def _started_warm(daemon: Daemon) -> bool:
    told = daemon.tell("launch", script=WAITING, limits={}, capabilities=[])
    assert "number" in told, told
    warm = is_warm(told["pid"])
    daemon.tell("kill", number=told["number"])
    daemon.tell("end", number=told["number"])
    return warm


def _echo(udp: socket.socket) -> None:
    while True:
        said, sender = udp.recvfrom(999)
        if said == _FAREWELL:
            return
        udp.sendto(said, sender)


def _end(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()

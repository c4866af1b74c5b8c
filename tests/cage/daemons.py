"""Drives a small daemon (`daemon_program.py`) that is a process of its own: as root, or as an ordinary user."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import select
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import SOURCE as SOURCES
from fixtures.small_disks import SOURCE
from paddock.cage.linux import child_pids, subtree_pids

PATIENCE = 30.0  # seconds; for a machine that does much else
ORDINARY = 12345  # a user that nobody is
FOREVER = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"


class Daemon:
    """The running daemon: every method of `daemon_program.Daemon` by its name, with keyword arguments."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self._ids = itertools.count()
        self._answers: dict[int, Any] = {}
        self._unread = b""

    def ask(self, what: str, **arguments: Any) -> int:
        """Ask and do not wait; `answer` does."""
        number = next(self._ids)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "do": what, "with": arguments}).encode() + b"\n")
        self.process.stdin.flush()
        return number

    def answer(self, number: int) -> Any:
        """What was answered to a question."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while number not in self._answers:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the daemon does not answer"
            part = os.read(self.process.stdout.fileno(), 65536)
            assert part, "the daemon ended"
            *lines, self._unread = (self._unread + part).split(b"\n")
            self._answers |= {said["id"]: said["told"] for said in map(json.loads, lines)}
        return self._answers.pop(number)

    def tell(self, what: str, **arguments: Any) -> Any:
        """Ask, and wait for the answer."""
        return self.answer(self.ask(what, **arguments))

    def launch(self, script: str, *capabilities: str, **limits: Any) -> int:
        """Start a plugin; it has to work. Its number."""
        told = self.tell("launch", script=script, limits=limits, capabilities=list(capabilities))
        assert "number" in told, told
        return told["number"]

    def refusal(self, script: str, *capabilities: str) -> dict[str, str]:
        """Start a plugin; it has to fail. Why it did."""
        told = self.tell("launch", script=script, limits={}, capabilities=list(capabilities))
        assert "refused" in told, told
        return told

    @property
    def warden(self) -> int:
        """The warden's pid."""
        (found,) = child_pids(self.process.pid)
        return found

    def everything(self) -> list[int]:
        """Every process below the daemon."""
        return [pid for pid in subtree_pids(self.process.pid) if pid != self.process.pid]

    def in_cages(self) -> list[int]:
        """Every process that belongs to a cage: neither the warden nor the copy of it that looks at places."""
        warden = _command_line(self.warden)
        return [pid for pid in self.everything() if _command_line(pid) != warden]


def _command_line(pid: int) -> bytes | None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return None


@contextlib.contextmanager
def open_daemon(
    *,
    ordinary: bool = False,
    contained: bool = False,
    prepare: str = ":",
    warm: bool = False,
    loop: str = "asyncio",
) -> Iterator[Daemon]:
    """A daemon in a folder of its own; when the block ends it is told to stop, and must.

    Args:
        ordinary: Not as root, where the tests are run by root.
        contained: As root of a user namespace, which is what root is in a container.
        warm: Whether plugins may be started from a warm interpreter.
        loop: The event loop that it runs on; `uvloop` is the other.
        prepare: A line for the shell, run in a mount namespace of the daemon's own before it starts; `$1` its folder.
    """
    python = sys.executable
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        as_user: list[str] = []
        if os.geteuid() != 0 and not ordinary:
            pytest.skip("only root can try what a root daemon does")
        if os.geteuid() == 0 and ordinary:
            python = python_for_everyone()
            os.chown(folder, ORDINARY, ORDINARY)
            as_user = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
        if contained:
            as_user += ["unshare", "--user", "--map-root-user"]
        if prepare != ":":
            as_user = ["unshare", "--mount", "sh", "-c", f'{prepare} && shift && exec "$@"', "sh", directory, *as_user]
        packages = [str(SOURCES), *site.getsitepackages()]
        process = subprocess.Popen(
            [
                *as_user,
                python,
                str(Path(__file__).with_name("daemon_program.py")),
                directory,
                "warm" if warm else "cold",
                loop,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                "PATH": "/usr/bin:/bin:/usr/local/sbin",
                "PYTHONPATH": ":".join(packages),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
        try:
            yield Daemon(process, folder)
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()


@functools.cache
def python_for_everyone() -> str:
    """An interpreter that an ordinary user can run: root's own may lie in root's home."""
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate is not None:
            test = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
            test += ["sh", "-c", f'{candidate} -c "import sys; sys.exit(sys.version_info < (3, 11))"']
            if subprocess.run(test, capture_output=True, check=False).returncode == 0:
                return candidate
    pytest.skip("no interpreter here can be run by an ordinary user")


def gone(pids: Iterable[int], within: float) -> bool:
    """Whether all of these processes are gone, or are within so many seconds."""
    deadline = time.monotonic() + within
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
        finally:
            os.close(handle)
    return True


def eventually(claim: Callable[[], bool]) -> bool:
    """Whether a claim comes true before our patience ends; for what the kernel does in its own time."""
    deadline = time.monotonic() + PATIENCE
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill_hard(pid: int) -> None:
    """As the kernel or an operator would."""
    os.kill(pid, signal.SIGKILL)


def running(daemon: Daemon, script: str = FOREVER, *capabilities: str, **limits: object) -> int:
    """A plugin that has said its first line."""
    number = daemon.launch(script, *capabilities, **limits)
    assert daemon.tell("line", number=number) == "ready"
    return number


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def mounts(pid: int) -> int:
    # Without the disks of other tests, which come and go in the namespace that all of them share.
    lines = Path(f"/proc/{pid}/mounts").read_text().splitlines()
    return sum(not line.startswith(f"{SOURCE} ") for line in lines)


def groups_of(warden: int) -> list[Path]:
    # Walked in a way that does not mind what comes and goes meanwhile: others have groups too.
    found = [Path(place, name) for place, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    return [group for group in found if group.name.startswith("paddock-") and group.name.split("-")[2] == str(warden)]

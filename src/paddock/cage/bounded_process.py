"""Runs a helper program within limits of time, output, file size and memory, and leaves no process behind.

git, uv, npm and the probes of this machine run this way: each in its own process group, which is killed when the
program ends, exceeds a limit, or the caller stops waiting for it. Processes that left the group are found by a variable
in their environment, and killed too. That needs no privileges and no namespaces, and covers daemons; it does not cover
a program that hides from its caller by clearing its environment.
"""

from __future__ import annotations

import os
import resource
import secrets
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from paddock.cage.spec import NOBODY

StopReason: TypeAlias = Literal["", "timeout", "output"]
"""Which limit a program exceeded; empty if it ended by itself."""

RUN_ID_VARIABLE: Final = "PADDOCK_RUN_ID"
"""Set to an id of the run, which all processes of the run inherit."""

_PROGRESS_INTERVAL_S = 0.2
_CHUNK_BYTES = 64 * 1024
_KILL_WAIT_MS = 500
_MAX_SWEEPS = 10


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of one run; None stands for no limit.

    Attributes:
        timeout_s: Seconds that it may take.
        output_bytes: Bytes that it may print to stdout, and to stderr, where they are captured.
        file_bytes: Size of any file that it writes.
        memory_bytes: Address space of each of its processes.
    """

    timeout_s: float = 5.0
    output_bytes: int = 64 * 1024
    file_bytes: int | None = None
    memory_bytes: int | None = None


_PROBE_LIMITS = ProcessLimits()


@dataclass(frozen=True, slots=True)
class BoundedRun:
    """The result of a run.

    Attributes:
        status: The exit status; None if it exceeded a limit.
        output: What it printed to stdout, unless that went to a file; at most `limits.output_bytes` of it.
        errors: What it printed to stderr, up to the same limit.
        stopped: The limit that it exceeded.
        limits: The limits of the run.
    """

    status: int | None
    output: str
    errors: str
    stopped: StopReason
    limits: ProcessLimits

    @property
    def outcome_text(self) -> str:
        """How it ended, in words that follow its name."""
        match self.stopped:
            case "timeout":
                return f"took longer than {self.limits.timeout_s:g} seconds"
            case "output":
                return f"printed more than {self.limits.output_bytes} bytes"
            case _:
                return f"ended with status {self.status}"

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.output + self.errors

    @property
    def first_line(self) -> str:
        """The first line that it printed."""
        return self.text.strip().partition("\n")[0]


def run_bounded(
    command: Sequence[str],
    environ: Mapping[str, str],
    limits: ProcessLimits = _PROBE_LIMITS,
    *,
    directory: Path = Path("/"),
    stdin: Path | None = None,
    stdout: Path | None = None,
    progress: Callable[[], None] | None = None,
    as_nobody: bool = False,
) -> BoundedRun:
    """Run a program and wait for its end.

    Args:
        command: The program and its arguments; the program by absolute path.
        environ: Its whole environment.
        limits: If it exceeds one, it is killed.
        directory: Its working directory.
        stdin: A file for its input; without one there is none.
        stdout: A file for its output, which is bounded by `limits.file_bytes`; without one it is captured.
        progress: Called at the start and about every 0.2 seconds; may raise to stop the program.
        as_nobody: Run it as the unprivileged user; only root can.

    Raises:
        OSError: it cannot be started.
    """
    identity = NOBODY if as_nobody else None
    run_id = secrets.token_hex(16)
    with ExitStack() as files:
        process = subprocess.Popen(  # noqa: S603 - a list of arguments from the callers, and no shell
            command,
            stdin=files.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL,
            stdout=files.enter_context(stdout.open("wb")) if stdout else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environ, RUN_ID_VARIABLE: run_id},
            cwd=directory,
            start_new_session=True,
            user=identity,
            group=identity,
            extra_groups=() if as_nobody else None,
        )
    output = _Capture(process.stdout, limits.output_bytes)
    errors = _Capture(process.stderr, limits.output_bytes)
    try:
        _apply_rlimits(process.pid, limits)
        stopped = _follow(process.pid, (output, errors), limits, progress)
    finally:
        # The leader is reaped after its group was killed, so that the id is still ours.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _kill_escaped(run_id)
        output.close()
        errors.close()
    if not stopped and (output.full or errors.full):
        stopped = "output"  # it ended before all its output was read
    return BoundedRun(None if stopped else process.returncode, output.text, errors.text, stopped, limits)


def _kill_escaped(run_id: str) -> None:
    """Kill the processes of a run that left its process group; repeated, since one may fork meanwhile."""
    entry = f"{RUN_ID_VARIABLE}={run_id}".encode()
    for _ in range(_MAX_SWEEPS):
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        if not sum(_kill_if_of_run(pid, entry) for pid in pids):
            return


def _kill_if_of_run(pid: int, entry: bytes) -> bool:
    """Kill a process whose environment has the entry, and wait for its end; returns whether it was running."""
    environment = Path(f"/proc/{pid}/environ")
    try:
        if entry not in environment.read_bytes().split(b"\0"):
            return False
        handle = os.pidfd_open(pid)
        try:
            # Read again: the id may belong to another process by now, but no longer once the handle is open.
            if entry not in environment.read_bytes().split(b"\0"):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            ended.poll(_KILL_WAIT_MS)
        finally:
            os.close(handle)
    except OSError:  # it ended, or is another user's
        return False
    return True


class _Capture:
    """What a program prints to one pipe, up to the limit."""

    def __init__(self, pipe: IO[bytes] | None, max_bytes: int) -> None:
        self.pipe = pipe
        self._max_bytes = max_bytes
        self._bytes = bytearray()
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)

    def read(self, pipe: IO[bytes]) -> bool:
        """Read a chunk if there is one; returns whether there was."""
        try:
            chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._bytes += chunk
        return bool(chunk)

    def close(self) -> None:
        """Read what the program left in the pipe, and close it."""
        if self.pipe is not None:
            with self.pipe:
                while not self.full and self.read(self.pipe):
                    pass

    @property
    def full(self) -> bool:
        return len(self._bytes) > self._max_bytes

    @property
    def text(self) -> str:
        return self._bytes[: self._max_bytes].decode("utf-8", "replace")


def _follow(
    pid: int, captures: Sequence[_Capture], limits: ProcessLimits, progress: Callable[[], None] | None
) -> StopReason:
    """Capture output until the process ends or exceeds a limit, and return which. The process is not reaped."""
    deadline = time.monotonic() + limits.timeout_s
    report_at = 0.0
    ended = os.pidfd_open(pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            for capture in captures:
                if capture.pipe is not None:
                    selector.register(capture.pipe, selectors.EVENT_READ, capture)
            while True:
                now = time.monotonic()
                if progress is not None and now >= report_at:
                    progress()
                    now = time.monotonic()
                    report_at = now + _PROGRESS_INTERVAL_S
                if now >= deadline:
                    return "timeout"
                for key, _ in selector.select((min(deadline, report_at) if progress else deadline) - now):
                    capture: _Capture | None = key.data
                    if capture is None or capture.pipe is None:
                        return ""
                    if not capture.read(capture.pipe):
                        selector.unregister(capture.pipe)
                    if capture.full:
                        return "output"
    finally:
        os.close(ended)


def _apply_rlimits(pid: int, limits: ProcessLimits) -> None:
    """Limit the process and, since it has none yet, its children. Set from here: code between fork and exec is unsafe
    in a process with threads."""
    chosen = ((resource.RLIMIT_FSIZE, limits.file_bytes), (resource.RLIMIT_AS, limits.memory_bytes))
    with suppress(ProcessLookupError):  # already ended
        for kind, most in chosen:
            if most is not None:
                resource.prlimit(pid, kind, (most, most))

"""Runs a helper program with bounded time and output, in its own process group, leaving no process behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.cage.spec import NOBODY

_MAX_OUTPUT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class BoundedRun:
    """The result of a run. `status` is None when the program had to be killed; `output` holds stdout and stderr."""

    status: int | None
    output: str

    @property
    def first_line(self) -> str:
        """The first line of the output."""
        return self.output.strip().partition("\n")[0]


def run_bounded(
    command: Sequence[str], environ: Mapping[str, str], *, seconds: float = 5.0, as_nobody: bool = False
) -> BoundedRun:
    """Run a program and read its output.

    Args:
        command: The program and its arguments; the program by absolute path.
        environ: Its whole environment.
        seconds: After this its process group is killed.
        as_nobody: Run it as the unprivileged user; only root can.

    Raises:
        OSError: It cannot be started.
    """
    deadline = time.monotonic() + seconds
    identity = NOBODY if as_nobody else None
    process = subprocess.Popen(  # noqa: S603 - the command is one of our own probes, never built from input
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        cwd="/",
        start_new_session=True,
        user=identity,
        group=identity,
        extra_groups=() if as_nobody else None,
    )
    pipe = process.stdout
    assert pipe is not None
    try:
        output = _read_output(pipe.fileno(), deadline)
        try:
            # A program cut off while still writing would only wait for a reader.
            wait_s = 0.0 if len(output) >= _MAX_OUTPUT_BYTES else max(0.0, deadline - time.monotonic())
            status = process.wait(wait_s)
        except subprocess.TimeoutExpired:
            status = None
    finally:
        pipe.close()
        # Kill the group, not the process, so that its children end too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return BoundedRun(status, output.decode("utf-8", "replace"))


def _read_output(descriptor: int, deadline: float) -> bytes:
    """Read the pipe until it ends, the output limit is reached, or the deadline passes."""
    output = b""
    while len(output) < _MAX_OUTPUT_BYTES:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        chunk = os.read(descriptor, 8192)
        if not chunk:
            break
        output += chunk
    return output

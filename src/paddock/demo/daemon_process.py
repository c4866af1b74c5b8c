"""The demo's daemon: `paddock serve` as a child process for as long as a block runs."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from paddock.core.errors import HostError

READY_TIMEOUT_S = 60.0  # generous, for a busy machine
STOP_TIMEOUT_S = 30.0
_PR_SET_PDEATHSIG = 1


class DemoDaemon:
    """A started daemon, which may not be ready yet.

    Args:
        process: `paddock serve --json`.
        log: The file with its stderr.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self._link_or_end = threading.Event()
        self._link = ""
        assert process.stdout is not None
        threading.Thread(target=self._read_events, args=(process.stdout,), daemon=True).start()

    def wait_for_login_link(self) -> str:
        """Wait for the operator's login link, which the daemon creates at its first start once it accepts calls.

        Raises:
            HostError: it did not start; the message contains its error.
        """
        self._link_or_end.wait(READY_TIMEOUT_S)
        if not self._link:
            raise HostError(
                f"the daemon did not start: {self._startup_error()}", code="demo.no_daemon", hint="paddock doctor"
            )
        return self._link

    def wait(self) -> None:
        """Wait until the daemon ends."""
        self._process.wait()

    def _startup_error(self) -> str:
        """Return the daemon's error message, without the hint after it."""
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return (errors or lines or ["it said nothing"])[-1]

    def _read_events(self, lines: IO[str]) -> None:
        """Read events to the end, so that the daemon's pipe never fills up."""
        with lines:
            for line in lines:
                if (event := _parse_event(line)).get("event") == "login":
                    self._link = str(event["url"])
                    self._link_or_end.set()
        self._link_or_end.set()


def _parse_event(line: str) -> dict[str, Any]:
    """Parse a line as an event; a daemon that fails early prints something else."""
    try:
        return dict(json.loads(line))
    except (TypeError, ValueError):
        return {}


@contextmanager
def start_daemon(environ: Mapping[str, str], log: Path) -> Generator[DemoDaemon, None, None]:
    """Start a daemon. It ends with the block, also when a signal ends this process."""
    command = [sys.executable, "-P", "-m", "paddock.cli", "serve", "--json"]
    with log.open("w") as errors, _interrupt_on_signals():
        # In its own session: Ctrl-C is for this process, which stops the daemon in order.
        process = subprocess.Popen(  # noqa: S603 - ourselves
            command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True, preexec_fn=_die_with_parent(),
        )  # fmt: skip
        try:
            yield DemoDaemon(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _die_with_parent() -> Callable[[], object]:
    """Return a `preexec_fn` that has the kernel end the child with this process, even if that is killed.

    Call it before there are threads: between fork and exec, the child must not need a lock that another thread holds.
    """
    library = ctypes.CDLL(None)
    return lambda: library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@contextmanager
def _interrupt_on_signals() -> Generator[None, None, None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that no daemon is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def home_environment(home: Path, port: int) -> dict[str, str]:
    """Return this process's environment with this home, without other Paddock settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    return inherited | {
        "PADDOCK_HOME": str(home),
        "PADDOCK_HTTP_ADDRESS": f"127.0.0.1:{port}",
        "PADDOCK_CONSOLE_TOUR": "true",
    }

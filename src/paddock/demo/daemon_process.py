"""A daemon of the demo's own: `paddock serve` as a child process, for as long as a block runs."""

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

READY_TIMEOUT_S = 60.0  # seconds for a daemon on a machine that is busy
STOP_TIMEOUT_S = 30.0  # seconds to end what runs
_PR_SET_PDEATHSIG = 1  # PR_SET_PDEATHSIG


class DemoDaemon:
    """A daemon that was started and may not be ready yet.

    Args:
        process: `paddock serve --json`.
        log: What it writes otherwise.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self._heard = threading.Event()
        self._link = ""
        assert process.stdout is not None
        threading.Thread(target=self._read_events, args=(process.stdout,), daemon=True).start()

    def wait_for_login_link(self) -> str:
        """The link that signs its operator in, which it makes at its first start: as soon as it takes calls.

        Raises:
            HostError: it did not start; what it wrote is in the message.
        """
        self._heard.wait(READY_TIMEOUT_S)
        if not self._link:
            raise HostError(
                f"the daemon did not start: {self._startup_error()}", code="demo.no_daemon", hint="paddock doctor"
            )
        return self._link

    def wait(self) -> None:
        """Until it ends."""
        self._process.wait()

    def _startup_error(self) -> str:
        """Why it did not start, as it says: the error, without the hint behind it."""
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return (errors or lines or ["it said nothing"])[-1]

    def _read_events(self, lines: IO[str]) -> None:
        """To the end: whoever does not listen fills the daemon's pipe."""
        with lines:
            for line in lines:
                if (event := _parse_event(line)).get("event") == "login":
                    self._link = str(event["url"])
                    self._heard.set()
        self._heard.set()


def _parse_event(line: str) -> dict[str, Any]:
    """What a daemon tells; one that fails before it is one tells something else."""
    try:
        return dict(json.loads(line))
    except (TypeError, ValueError):
        return {}


@contextmanager
def start_daemon(environ: Mapping[str, str], log: Path) -> Generator[DemoDaemon, None, None]:
    """A daemon that was just started. It ends with the block, also when a signal ends us."""
    command = [sys.executable, "-P", "-m", "paddock.cli", "serve", "--json"]
    with log.open("w") as errors, _interrupt_on_signals():
        # In a session of its own: Ctrl-C is for us, and we end it in order.
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
    """Has the kernel end a child with us, also when nothing of ours can any more. For before there are threads: what a
    child does between fork and exec must not need what another thread holds."""
    library = ctypes.CDLL(None)
    return lambda: library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@contextmanager
def _interrupt_on_signals() -> Generator[None, None, None]:
    """A terminal that closes and `kill` end the demo as Ctrl-C does, so that no daemon is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def home_environment(home: Path, port: int) -> dict[str, str]:
    """Our environment, with this home and nothing that would lead elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    return kept | {
        "PADDOCK_HOME": str(home),
        "PADDOCK_HTTP_ADDRESS": f"127.0.0.1:{port}",
        "PADDOCK_CONSOLE_TOUR": "true",
    }

"""A daemon of the demo's own: `paddock serve` as a child process, for as long as a block runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from paddock.core.errors import HostError

READY = 60.0  # seconds for a daemon whose plugins are all still disabled
GOING = 30.0  # seconds to end what runs


@contextmanager
def daemon_of(environ: Mapping[str, str], log: Path) -> Generator[subprocess.Popen[str], None, None]:
    """A daemon that is ready. It ends with the block, also when a signal ends us.

    Raises:
        HostError: it did not start; what it wrote is in the message.
    """
    command = [sys.executable, "-P", "-m", "paddock.cli", "serve", "--json"]
    with log.open("w") as errors, _signals_end_the_block():
        # In a session of its own: Ctrl-C is for us, and we end it in order.
        process = subprocess.Popen(  # noqa: S603 - ourselves
            command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait_until_ready(process, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(GOING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[str], log: Path) -> None:
    told = threading.Event()
    ready: list[dict[str, Any]] = []

    def listen(lines: IO[str]) -> None:
        """To the end: whoever does not listen fills the daemon's pipe."""
        with lines:
            for line in lines:
                event = json.loads(line)
                if event.get("event") == "ready":
                    ready.append(event)
                    told.set()
        told.set()

    assert process.stdout is not None  # asked for above
    threading.Thread(target=listen, args=(process.stdout,), daemon=True).start()
    told.wait(READY)
    if not ready:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        why = last[0] if last else "it said nothing"
        raise HostError(f"the daemon did not start: {why}", code="demo.no_daemon", hint="paddock doctor")


@contextmanager
def _signals_end_the_block() -> Generator[None, None, None]:
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


def home_environment(home: Path) -> dict[str, str]:
    """Our environment, with this home and nothing that would lead elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    # Any free port: whoever tries the demo may have a daemon of their own.
    return kept | {"PADDOCK_HOME": str(home), "PADDOCK_HTTP_ADDRESS": "127.0.0.1:0"}

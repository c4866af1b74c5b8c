"""The worker's side of a forked call process: its messages, its log and its end."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import HostGone
from paddock_sdk.framing import Lines, encode_line
from paddock_sdk.worker.fork_server import ForkedProcess

STDERR = 2
PAGE_BYTES = 4096  # what a writable pipe accepts at once
MAX_PAGES = 32  # read after the process ends: more than a pipe holds


class ForkLog:
    """Forwards the output of a forked process to the log.

    Attributes:
        source: The descriptor of its output.
        over: Whether it will print no more.
    """

    def __init__(self, source: int) -> None:
        os.set_blocking(source, False)
        self.source = source
        self.over = False
        self._partial_line = b""  # an incomplete line

    def forward_page(self) -> bool:
        """Forward at most one page of output; returns whether there was any."""
        try:
            output = os.read(self.source, PAGE_BYTES)
        except BlockingIOError:
            return False
        self.over = not output
        text = self._partial_line + output
        # Lines of different processes do not mix, unless they are very long.
        end = len(text) if self.over or len(text) >= PAGE_BYTES else text.rfind(b"\n") + 1
        self._partial_line = text[end:]
        _write_log(text[:end])
        return not self.over

    def forward_all(self) -> None:
        """Forward everything printed so far."""
        for _ in range(MAX_PAGES):
            if self.over or not self.forward_page():
                break

    def close(self) -> None:
        """Forward the rest, after the process has ended."""
        self.forward_all()
        _write_log(self._partial_line)
        os.close(self.source)


def log_is_writable() -> bool:
    """Whether our own log accepts a page without blocking. A chatty process must wait, not the worker."""
    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    return bool(poll.poll(0))


def _write_log(text: bytes) -> None:
    # A failure to log must not fail a call.
    with suppress(OSError):
        while text:
            text = text[os.write(STDERR, text) :]


class ForkHandle:
    """The worker's handle of a forked process.

    Attributes:
        message: The request it works on; None while it is idle.
        ready: Whether the plugin is loaded in it.
        ended: Whether it has been killed and reaped.
        ends_at: When it is killed, by `time.monotonic`; None unless its call was cancelled.
    """

    def __init__(self, process: ForkedProcess) -> None:
        self.message: JsonObject | None = None
        self.ready = False
        self.ended = False
        self.ends_at: float | None = None
        self.pid = process.pid
        os.set_blocking(process.sink, False)
        self.lines = Lines(process.source, process.sink)
        self.log = ForkLog(process.log)
        self._unsent = b""

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def assign(self, message: JsonObject) -> None:
        """Send it a request to work on.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON.
        """
        self.send(encode_line(message))
        self.message = message

    def stop(self, method: str, timeout_s: float) -> None:
        """Cancel its call: it may clean up and answer within `timeout_s`."""
        if self.message is not None and self.ends_at is None:
            self.ends_at = time.monotonic() + timeout_s
            self.send(encode_line({"jsonrpc": "2.0", "method": method, "params": {"id": self.message.get("id")}}))

    def send(self, line: bytes) -> None:
        """Send it a line as far as it reads; the rest waits."""
        self._unsent += line
        self.flush()

    def flush(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self.lines.sink, self._unsent) :]
        except BlockingIOError:
            return  # it is busy; unread messages delay only itself
        except BrokenPipeError:
            self._unsent = b""

    def read_messages(self) -> list[Any] | None:
        """Return its messages; None when there will be no more."""
        try:
            return self.lines.read()
        except HostGone:
            return None

    def end(self) -> int:
        """Kill it. It cannot have forked. Returns its wait status, as from `os.waitpid`."""
        self.ended = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.log.close()
        os.close(self.lines.source)
        os.close(self.lines.sink)
        return status

"""The process of one call as the worker sees it: what it says, what it is told, and its end."""

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
PAGE_BYTES = 4096  # what a pipe takes at once, if it takes anything
MAX_PAGES = 32  # of what is left when the process ends: more than a pipe holds


class ForkLog:
    """One process's end.

    Attributes:
        source: What it prints, to read.
        over: Whether it will print no more.
    """

    def __init__(self, source: int) -> None:
        os.set_blocking(source, False)
        self.source = source
        self.over = False
        self._begun = b""  # a line that has not ended

    def forward_page(self) -> bool:
        """Pass on what there is, a page at most; tells whether there was anything."""
        try:
            printed = os.read(self.source, PAGE_BYTES)
        except BlockingIOError:
            return False
        self.over = not printed
        text = self._begun + printed
        # A line stays in one piece among those of others, unless it is very long.
        end = len(text) if self.over or len(text) >= PAGE_BYTES else text.rfind(b"\n") + 1
        self._begun = text[end:]
        _write_log(text[:end])
        return not self.over

    def forward_all(self) -> None:
        """Pass on what was printed so far."""
        for _ in range(MAX_PAGES):
            if self.over or not self.forward_page():
                break

    def close(self) -> None:
        """The process has ended: pass on the rest."""
        self.forward_all()
        _write_log(self._begun)
        os.close(self.source)


def log_is_writable() -> bool:
    """Whether our own log takes a page without waiting. Who prints too much must wait, and not the worker."""
    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    return bool(poll.poll(0))


def _write_log(text: bytes) -> None:
    # What cannot be logged must not cost a call.
    with suppress(OSError):
        while text:
            text = text[os.write(STDERR, text) :]


class ForkHandle:
    """The worker's end.

    Attributes:
        message: What it works on; None while it waits for its call.
        ready: Whether the plugin is loaded in it.
        ended: Whether it is gone.
        ends_at: When it is ended, by `time.monotonic`; None while its call is wanted.
    """

    def __init__(self, born: ForkedProcess) -> None:
        self.message: JsonObject | None = None
        self.ready = False
        self.ended = False
        self.ends_at: float | None = None
        self.pid = born.pid
        os.set_blocking(born.sink, False)
        self.lines = Lines(born.source, born.sink)
        self.log = ForkLog(born.log)
        self._unsent = b""

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def assign(self, message: JsonObject) -> None:
        """Have it work on something.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON.
        """
        self.send(encode_line(message))
        self.message = message

    def stop(self, method: str, within: float) -> None:
        """Its call is not wanted any more: let it clean up and answer, for so many seconds."""
        if self.message is not None and self.ends_at is None:
            self.ends_at = time.monotonic() + within
            self.send(encode_line({"jsonrpc": "2.0", "method": method, "params": {"id": self.message.get("id")}}))

    def send(self, line: bytes) -> None:
        """Tell it something, as far as it reads; the rest waits."""
        self._unsent += line
        self.flush()

    def flush(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self.lines.sink, self._unsent) :]
        except BlockingIOError:
            return  # it is busy; what it does not read costs it its own time alone
        except BrokenPipeError:
            self._unsent = b""

    def read_messages(self) -> list[Any] | None:
        """What it said; None when it will say no more."""
        try:
            return self.lines.read()
        except HostGone:
            return None

    def end(self) -> int:
        """End it, for good: it could not make another process. Gives how it ended, as `os.waitpid` says it."""
        self.ended = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.log.close()
        os.close(self.lines.source)
        os.close(self.lines.sink)
        return status

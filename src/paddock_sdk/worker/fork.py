"""The process of one call as the worker sees it: what it says, what it is told, and its end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import HostGone
from paddock_sdk.framing import Lines, line_of
from paddock_sdk.worker.fork_log import ForkLog
from paddock_sdk.worker.nursery import Born


class Fork:
    """The worker's end.

    Attributes:
        message: What it works on; None while it waits for its call.
        ready: Whether the plugin is loaded in it.
        ended: Whether it is gone.
        ends_at: When it is ended, by `time.monotonic`; None while its call is wanted.
    """

    def __init__(self, born: Born) -> None:
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

    def give(self, message: JsonObject) -> None:
        """Have it work on something.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON.
        """
        self.send(line_of(message))
        self.message = message

    def stop(self, method: str, within: float) -> None:
        """Its call is not wanted any more: let it clean up and answer, for so many seconds."""
        if self.message is not None and self.ends_at is None:
            self.ends_at = time.monotonic() + within
            self.send(line_of({"jsonrpc": "2.0", "method": method, "params": {"id": self.message.get("id")}}))

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

    def heard(self) -> list[Any] | None:
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

"""One call in a process of its own: a copy of the warm worker that ends with its answer.

The copy speaks the ordinary wire, to its parent instead of the host. Whatever it changes is changed in the copy.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import HostGone
from paddock_sdk.framing import Lines
from paddock_sdk.pipes import close_pipes


class Fork:
    """The parent's end: what the copy says, and what it is told.

    Args:
        message: The call that it works on.
        run: Serves that call on a wire; called in the copy.
        inherited: Descriptors that are the parent's alone.
    """

    def __init__(self, message: JsonObject, run: Callable[[Lines], None], inherited: list[int]) -> None:
        self.message = message
        self.answered = False
        ours_to_read, theirs_to_write = os.pipe()
        theirs_to_read, ours_to_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be_the_copy(run, Lines(theirs_to_read, theirs_to_write), [*inherited, ours_to_read, ours_to_write])
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)  # as the copy does: whoever comes first
        os.close(theirs_to_read)
        os.close(theirs_to_write)
        os.set_blocking(ours_to_write, False)
        self.lines = Lines(ours_to_read, ours_to_write)
        self._unsent = b""

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

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
        """End it and every process that it left behind in its group; gives how it ended, as `os.waitpid` says it."""
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.lines.source)
        os.close(self.lines.sink)
        return status


def _be_the_copy(run: Callable[[Lines], None], lines: Lines, not_ours: list[int]) -> NoReturn:
    """Serve one call and end without running anything that the parent had planned for its own end."""
    status = 1
    try:
        os.setpgid(0, 0)
        for descriptor in not_ours:
            os.close(descriptor)
        close_pipes()
        _write_no_files()
        run(lines)
        status = 0
    except HostGone:
        pass
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _write_no_files() -> None:
    """No file can grow in here, so none can carry anything to the next call. Pipes are no files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

"""What the process of a call prints, passed on to the worker's own log line by line.

The worker's own descriptor is not handed to it: its flags and its pipe are shared by whoever has it, and so would carry
something from one call to the next.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

LOG = 2
A_PAGE = 4096  # what a pipe takes at once, if it takes anything
MOST_PAGES = 32  # of what is left when the process ends: more than a pipe holds


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

    def pass_on(self) -> bool:
        """Pass on what there is, a page at most; tells whether there was anything."""
        try:
            printed = os.read(self.source, A_PAGE)
        except BlockingIOError:
            return False
        self.over = not printed
        text = self._begun + printed
        # A line stays in one piece among those of others, unless it is very long.
        end = len(text) if self.over or len(text) >= A_PAGE else text.rfind(b"\n") + 1
        self._begun = text[end:]
        _write(text[:end])
        return not self.over

    def pass_on_all(self) -> None:
        """Pass on what was printed so far."""
        for _ in range(MOST_PAGES):
            if self.over or not self.pass_on():
                break

    def close(self) -> None:
        """The process has ended: pass on the rest."""
        self.pass_on_all()
        _write(self._begun)
        os.close(self.source)


def can_log() -> bool:
    """Whether our own log takes a page without waiting. Who prints too much must wait, and not the worker."""
    poll = select.poll()
    poll.register(LOG, select.POLLOUT)
    return bool(poll.poll(0))


def _write(text: bytes) -> None:
    # What cannot be logged must not cost a call.
    with suppress(OSError):
        while text:
            text = text[os.write(LOG, text) :]

"""What a plugin writes to its standard error: the last lines kept, the rest passed on, floods cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from paddock.core.events_host import STDERR_LINES

LONGEST_LINE = 4_000
BYTES_A_SECOND = 256 * 1024


class StderrTail:
    """Turns chunks of bytes into lines and keeps the last fifty. A flood costs the plugin lines, not the host time."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=STDERR_LINES)
        self._partial = b""
        self._second = float("-inf")
        self._bytes = 0
        self._cut = False

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, oldest first, an unfinished one included."""
        rest = (_text(self._partial),) if self._partial else ()
        return (*self._last, *rest)[-STDERR_LINES:]

    def feed(self, chunk: bytes, now: float) -> None:
        """Take what was written, at this monotonic time."""
        if now - self._second >= 1.0:
            self._second, self._bytes, self._cut = now, 0, False
        self._bytes += len(chunk)
        if self._bytes > BYTES_A_SECOND:
            if not self._cut:
                self._cut = True
                self._keep("[more was written than is kept; lines are missing here]")
            self._partial = b""
            return
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        for line in whole:
            self._keep(_text(line))
        if len(self._partial) > LONGEST_LINE:
            self._keep(_text(self._partial))
            self._partial = b""

    def end(self) -> None:
        """The stream is over; an unfinished line is a line."""
        if self._partial:
            self._keep(_text(self._partial))
            self._partial = b""

    def _keep(self, line: str) -> None:
        self._last.append(line)
        self._on_line(line)


def _text(line: bytes) -> str:
    return line[:LONGEST_LINE].decode("utf-8", "replace").rstrip("\r")

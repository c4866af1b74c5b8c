"""A plugin's stderr: keeps the last lines, passes every line on, and cuts floods."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from paddock.core.clock import Clock
from paddock.core.events.plugin_runtime import MAX_STDERR_LINES
from paddock.rpc.pipe_transport import connect_read_pipe

MAX_LINE_BYTES = 4_000
MAX_BYTES_PER_S = 256 * 1024
_DRAIN_TIMEOUT_S = 1.0  # for the rest of the output of a process that died


class StderrTail:
    """Splits chunks of bytes into lines and keeps the last fifty. A flood costs the plugin lines, not the host time."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._partial = b""
        self._window_start = float("-inf")
        self._bytes = 0
        self._truncated = False

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, oldest first, an unfinished one included."""
        partial = (_decode(self._partial),) if self._partial else ()
        return (*self._last, *partial)[-MAX_STDERR_LINES:]

    def feed(self, chunk: bytes, now: float) -> None:
        """Add a chunk that arrived at this monotonic time."""
        if now - self._window_start >= 1.0:
            self._window_start, self._bytes, self._truncated = now, 0, False
        self._bytes += len(chunk)
        if self._bytes > MAX_BYTES_PER_S:
            if not self._truncated:
                self._truncated = True
                self._append("[more was written than is kept; lines are missing here]")
            self._partial = b""
            return
        *complete_lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in complete_lines:
            self._append(_decode(line))
        if len(self._partial) > MAX_LINE_BYTES:
            self._append(_decode(self._partial))
            self._partial = b""

    def end(self) -> None:
        """Handle the end of the stream; an unfinished line counts as a line."""
        if self._partial:
            self._append(_decode(self._partial))
            self._partial = b""

    def _append(self, line: str) -> None:
        self._last.append(line)
        self._on_line(line)


def _decode(line: bytes) -> str:
    return line[:MAX_LINE_BYTES].decode("utf-8", "replace").rstrip("\r")


class StderrReader(asyncio.Protocol):
    """Feeds a pipe into a tail until the pipe ends."""

    def __init__(self, tail: StderrTail, clock: Clock) -> None:
        self._tail = tail
        self._clock = clock
        self._transport: asyncio.BaseTransport | None = None
        self._ended = asyncio.Event()

    async def attach(self, fd: int) -> None:
        """Read from this descriptor. It is closed with the reader, and if it cannot be read from.

        Raises:
            OSError, ValueError: it is not open, or not a pipe.
        """
        self._transport = await connect_read_pipe(lambda: self, fd)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines so far; the process may still run."""
        return self._tail.lines

    async def final_lines(self) -> tuple[str, ...]:
        """Return the last lines of a process that is gone, once all its output has arrived."""
        try:
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                await self._ended.wait()
        except TimeoutError:
            pass  # another process still holds the pipe; return what has arrived
        return self._tail.lines

    def data_received(self, data: bytes) -> None:
        self._tail.feed(data, self._clock.monotonic())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._tail.end()
        self._ended.set()

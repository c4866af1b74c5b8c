"""Lines on stdin and stdout, for a command that another program talks to.

Threads read and write, so that any kind of stream works, and so that processes that share the streams (a terminal, a
shell) do not find them switched to non-blocking. Writing never waits for the reader.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Final

from paddock.rpc.framing import LineSplitter

STDIN, STDOUT = 0, 1
FLUSH_TIMEOUT_S: Final = 1.0
"""How long the end waits for the reader to take the remaining output."""
PAUSE_READING_BYTES: Final = 1024 * 1024
"""Unread output above which no more input is read."""
MAX_UNREAD_BYTES: Final = 64 * 1024 * 1024
"""Unread output above which the reader counts as gone: messages of a daemon or a plugin do not stop by themselves."""
_CHUNK_BYTES: Final = 64 * 1024
_MAX_CHUNKS_AHEAD: Final = 4  # chunks read ahead of their processing


class StdioLines:
    """The two streams as lines. Made by `open_stdio_lines`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._input_chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(_MAX_CHUNKS_AHEAD)
        self._output_lines: SimpleQueue[bytes | None] = SimpleQueue()
        self.reader_gone = False  # the reader of stdout is gone
        self._unread_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Iterate over the lines of stdin until its end, until the reader of stdout is gone, or until `stop_reading`.

        Raises:
            FramingViolation: a line is longer, or more deeply nested, than allowed.
        """
        splitter = LineSplitter()
        while chunk := await self._input_chunks.get():
            self._ahead.release()
            for line in splitter.feed(chunk):
                await self._writable.wait()  # backpressure: read no more while output is unread
                yield line
        if splitter.held:
            for line in splitter.feed(b"\n"):  # the last line need not be ended
                yield line

    def write(self, line: bytes) -> None:
        """Queue a line, given without its line break."""
        if self.reader_gone:
            return
        self._unread_bytes += len(line)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.reader_gone = True
            self._writable.set()
            self.stop_reading()
            return
        if self._unread_bytes > PAUSE_READING_BYTES:
            self._writable.clear()
        self._output_lines.put(line + b"\n")

    def stop_reading(self) -> None:
        """End `lines`."""
        self._input_chunks.put_nowait(b"")

    def _on_written(self, size: int) -> None:
        self._unread_bytes -= size
        if self._unread_bytes <= PAUSE_READING_BYTES:
            self._writable.set()

    # The following run on threads.

    def run_reader(self) -> None:
        while True:
            self._ahead.acquire()
            try:
                chunk = os.read(STDIN, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            if not self._call_in_loop(partial(self._input_chunks.put_nowait, chunk)) or not chunk:
                return

    def run_writer(self) -> None:
        while (line := self._output_lines.get()) is not None:
            remaining = memoryview(line)
            try:
                while remaining:
                    remaining = remaining[os.write(STDOUT, remaining) :]
            except OSError:
                self.reader_gone = True
                self._call_in_loop(self.stop_reading)
                return
            self._call_in_loop(partial(self._on_written, len(line) - 1))

    def close(self) -> None:
        self._output_lines.put(None)

    def _call_in_loop(self, callback: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            return False
        return True


@contextmanager
def open_stdio_lines() -> Generator[StdioLines, None, None]:
    """Open the streams while the block runs; at the end, the remaining output is flushed within a timeout."""
    streams = StdioLines()
    # Daemon threads: they may block forever on a peer that neither writes nor reads.
    reader = threading.Thread(target=streams.run_reader, name="paddock-stdin", daemon=True)
    writer = threading.Thread(target=streams.run_writer, name="paddock-stdout", daemon=True)
    reader.start()
    writer.start()
    try:
        yield streams
    finally:
        streams.close()
        writer.join(FLUSH_TIMEOUT_S)

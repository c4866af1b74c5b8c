"""Lines on stdin and stdout, for a command that another program talks with.

Threads read and write, so that it does not matter what the streams are, and that nobody who shares them with us (a
terminal, a shell) finds them changed. Whoever has something to say never waits for a reader.
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
"""Seconds at the end for what still waits to be read."""
PAUSE_READING_BYTES: Final = 1024 * 1024
"""How many bytes may wait to be read before nothing more is heard."""
MAX_UNREAD_BYTES: Final = 64 * 1024 * 1024
"""How many before nobody is believed to read them: what a daemon or a plugin tells by itself does not stop for that."""
_CHUNK_BYTES: Final = 64 * 1024
_MAX_CHUNKS_AHEAD: Final = 4  # chunks that are read before they are dealt with


class StdioLines:
    """Made by `standard_lines`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._input_chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(_MAX_CHUNKS_AHEAD)
        self._output_lines: SimpleQueue[bytes | None] = SimpleQueue()
        self.reader_gone = False  # nobody reads stdout any more
        self._unread_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Each line of stdin, until its end, until nobody reads stdout any more, or until `end`.

        Raises:
            Violation: a line is longer, or has more structure, than we take.
        """
        splitter = LineSplitter()
        while chunk := await self._input_chunks.get():
            self._ahead.release()
            for line in splitter.feed(chunk):
                await self._writable.wait()  # who does not listen is not listened to
                yield line
        if splitter.held:
            for line in splitter.feed(b"\n"):  # the last line need not be ended
                yield line

    def write(self, line: bytes) -> None:
        """Say a line, given without its end."""
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
        """Hear nothing more."""
        self._input_chunks.put_nowait(b"")

    def _on_written(self, size: int) -> None:
        self._unread_bytes -= size
        if self._unread_bytes <= PAUSE_READING_BYTES:
            self._writable.set()

    # On threads.

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
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(STDOUT, left) :]
            except OSError:
                self.reader_gone = True
                self._call_in_loop(self.stop_reading)
                return
            self._call_in_loop(partial(self._on_written, len(line) - 1))

    def close(self) -> None:
        self._output_lines.put(None)

    def _call_in_loop(self, what: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed
            return False
        return True


@contextmanager
def open_stdio_lines() -> Generator[StdioLines, None, None]:
    """The streams as lines while the block runs; afterwards everything was written that was read in time."""
    streams = StdioLines()
    # Daemon threads: one may wait for ever for a side that says nothing, or that does not read.
    reader = threading.Thread(target=streams.run_reader, name="paddock-stdin", daemon=True)
    writer = threading.Thread(target=streams.run_writer, name="paddock-stdout", daemon=True)
    reader.start()
    writer.start()
    try:
        yield streams
    finally:
        streams.close()
        writer.join(FLUSH_TIMEOUT_S)

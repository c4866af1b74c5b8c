"""Writes lines without blocking, even if the reader has stopped: a stopped terminal, a pipe to a hung program.

A thread does the writing. Callers never wait; lines that exceed the buffer are dropped, and one line reports how many.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TextIO

MAX_BUFFER_BYTES: Final = 1024 * 1024
"""Size of the buffer."""

CLOSE_TIMEOUT_S: Final = 1.0
"""Time for writing the rest of the buffer at the end."""


class NonblockingWriter:
    """Writes to a file descriptor from a thread. Opened with `open_nonblocking_writer`.

    It bypasses Python's stream: while the reader is stopped, its lock would be held and the process could not exit.

    Args:
        stream: Provides the descriptor and the encoding.
        dropped_message: Formats the line that replaces dropped lines, from their number.
        max_bytes: Size of the buffer.
    """

    def __init__(
        self, stream: TextIO, dropped_message: Callable[[int], str], max_bytes: int = MAX_BUFFER_BYTES
    ) -> None:
        # Duplicated: the thread may outlive the stream, whose descriptor number could be reused.
        self._descriptor = os.dup(stream.fileno())
        self._encoding = stream.encoding
        self._dropped_message = dropped_message
        self._max_bytes = max_bytes
        self._changed = threading.Condition()  # guards all below
        self._buffer: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._writing = False
        self._closing = False

    def write_line(self, text: str) -> None:
        """Queue a line; never blocks."""
        data = self._encode_line(text)
        with self._changed:
            if self._closing:
                return
            # After a dropped line, drop further ones until the thread has reported it: output stays in order.
            if self._dropped or self._size + len(data) > self._max_bytes:
                self._dropped += 1
            else:
                self._buffer.append(data)
                self._size += len(data)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> None:
        """Wait until everything is written, at most `timeout_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._buffer and not self._dropped and not self._writing, timeout_s)

    def close(self) -> None:
        """Let the thread write the rest of the buffer and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run_writer(self) -> None:
        """Write until closed; runs on the thread."""
        try:
            while batch := self._next_batch():
                self._write(batch)
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()
        finally:
            os.close(self._descriptor)

    def _next_batch(self) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: self._buffer or self._dropped or self._closing)
            lines, dropped = self._buffer, self._dropped
            self._buffer, self._size, self._dropped = [], 0, 0
            self._writing = bool(lines or dropped)
        return b"".join([*lines, *([self._encode_line(self._dropped_message(dropped))] if dropped else [])])

    def _encode_line(self, text: str) -> bytes:
        return f"{text}\n".encode(self._encoding, "backslashreplace")

    def _write(self, data: bytes) -> None:
        remaining = memoryview(data)
        try:
            while remaining:
                try:
                    remaining = remaining[os.write(self._descriptor, remaining) :]
                except BlockingIOError:  # another user of the terminal made it non-blocking
                    select.select([], [self._descriptor], [])
        except OSError:
            pass  # reader gone or disk full: the process must survive that


@contextmanager
def open_nonblocking_writer(
    stream: TextIO, dropped_message: Callable[[int], str], max_bytes: int = MAX_BUFFER_BYTES
) -> Generator[NonblockingWriter, None, None]:
    """Open a writer while the block runs; afterwards the rest is written, up to a timeout."""
    writer = NonblockingWriter(stream, dropped_message, max_bytes)
    # A daemon thread: process exit must not wait for a reader that never returns.
    thread = threading.Thread(target=writer.run_writer, name="paddock-outlet", daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        writer.close()
        thread.join(CLOSE_TIMEOUT_S)

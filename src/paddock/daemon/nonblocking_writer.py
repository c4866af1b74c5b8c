"""Writing for whoever may have stopped reading: a stopped terminal, a pipe to a program that hangs.

The words wait for them on a thread of their own. Whoever has something to say never waits; what finds no room is lost,
and how much that was is said in its place.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TextIO

MAX_BUFFER_BYTES: Final = 1024 * 1024
"""How many bytes may wait to be read."""

CLOSE_TIMEOUT_S: Final = 1.0
"""How many seconds there are at the end for what still waits."""


class NonblockingWriter:
    """A descriptor that is written to by a thread. Opened with `open_outlet`.

    Not through Python's own stream: its lock would be held for as long as nobody reads, and the process could not end.

    Args:
        stream: Where to; its descriptor and its encoding are used, and nothing else of it.
        loss: The line that stands for this many lost ones.
        room: How many bytes may wait.
    """

    def __init__(self, stream: TextIO, loss: Callable[[int], str], room: int = MAX_BUFFER_BYTES) -> None:
        # Of its own: the thread may outlive the stream, whose number could then be somebody else's.
        self._descriptor = os.dup(stream.fileno())
        self._encoding = stream.encoding
        self._dropped_message = loss
        self._max_bytes = room
        self._changed = threading.Condition()  # guards all below
        self._buffer: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._writing = False
        self._closing = False

    def write_line(self, text: str) -> None:
        """Say a line. Does not wait."""
        data = self._encode_line(text)
        with self._changed:
            if self._closing:
                return
            # Whoever lost a line loses those after it until the thread comes by: what is said stays in order.
            if self._dropped or self._size + len(data) > self._max_bytes:
                self._dropped += 1
            else:
                self._buffer.append(data)
                self._size += len(data)
            self._changed.notify_all()

    def flush(self, within: float) -> None:
        """Wait until everything is written, but no longer than this many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._buffer and not self._dropped and not self._writing, within)

    def close(self) -> None:
        """Let the thread write what waits, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run_writer(self) -> None:
        """Write until closed; on the thread."""
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
            said, lost = self._buffer, self._dropped
            self._buffer, self._size, self._dropped = [], 0, 0
            self._writing = bool(said or lost)
        return b"".join([*said, *([self._encode_line(self._dropped_message(lost))] if lost else [])])

    def _encode_line(self, text: str) -> bytes:
        return f"{text}\n".encode(self._encoding, "backslashreplace")

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:  # somebody who has the same terminal told it not to wait
                    select.select([], [self._descriptor], [])
        except OSError:
            pass  # nobody reads any more, or the disk is full: whoever speaks outlives that


@contextmanager
def open_nonblocking_writer(
    stream: TextIO, loss: Callable[[int], str], room: int = MAX_BUFFER_BYTES
) -> Generator[NonblockingWriter, None, None]:
    """The outlet for as long as the block runs; afterwards everything is written that was read in time."""
    outlet = NonblockingWriter(stream, loss, room)
    # A daemon thread: nobody waits for a reader that never comes back.
    thread = threading.Thread(target=outlet.run_writer, name="paddock-outlet", daemon=True)
    thread.start()
    try:
        yield outlet
    finally:
        outlet.close()
        thread.join(CLOSE_TIMEOUT_S)

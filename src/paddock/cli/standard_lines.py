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
LAST_WORDS: Final = 1.0
"""Seconds at the end for what still waits to be read."""
MOST_UNREAD: Final = 1024 * 1024
"""How many bytes may wait to be read before nothing more is heard."""
GIVEN_UP: Final = 64 * 1024 * 1024
"""How many before nobody is believed to read them: what a daemon or a plugin tells by itself does not stop for that."""
_CHUNK: Final = 64 * 1024
_AHEAD: Final = 4  # chunks that are read before they are dealt with


class StandardLines:
    """Made by `standard_lines`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(_AHEAD)
        self._said: SimpleQueue[bytes | None] = SimpleQueue()
        self.unheard = False  # nobody reads stdout any more
        self._unread = 0
        self._room = asyncio.Event()
        self._room.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Each line of stdin, until its end, until nobody reads stdout any more, or until `end`.

        Raises:
            Violation: a line is longer, or has more structure, than we take.
        """
        splitter = LineSplitter()
        while chunk := await self._heard.get():
            self._ahead.release()
            for line in splitter.feed(chunk):
                await self._room.wait()  # who does not listen is not listened to
                yield line
        if splitter.held:
            for line in splitter.feed(b"\n"):  # the last line need not be ended
                yield line

    def write(self, line: bytes) -> None:
        """Say a line, given without its end."""
        if self.unheard:
            return
        self._unread += len(line)
        if self._unread > GIVEN_UP:
            self.unheard = True
            self._room.set()
            self.end()
            return
        if self._unread > MOST_UNREAD:
            self._room.clear()
        self._said.put(line + b"\n")

    def end(self) -> None:
        """Hear nothing more."""
        self._heard.put_nowait(b"")

    def _wrote(self, size: int) -> None:
        self._unread -= size
        if self._unread <= MOST_UNREAD:
            self._room.set()

    # On threads.

    def read_all(self) -> None:
        while True:
            self._ahead.acquire()
            try:
                chunk = os.read(STDIN, _CHUNK)
            except OSError:
                chunk = b""
            if not self._tell(partial(self._heard.put_nowait, chunk)) or not chunk:
                return

    def write_all(self) -> None:
        while (line := self._said.get()) is not None:
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(STDOUT, left) :]
            except OSError:
                self.unheard = True
                self._tell(self.end)
                return
            self._tell(partial(self._wrote, len(line) - 1))

    def close(self) -> None:
        self._said.put(None)

    def _tell(self, what: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed
            return False
        return True


@contextmanager
def standard_lines() -> Generator[StandardLines, None, None]:
    """The streams as lines while the block runs; afterwards everything was written that was read in time."""
    streams = StandardLines()
    # Daemon threads: one may wait for ever for a side that says nothing, or that does not read.
    reader = threading.Thread(target=streams.read_all, name="paddock-stdin", daemon=True)
    writer = threading.Thread(target=streams.write_all, name="paddock-stdout", daemon=True)
    reader.start()
    writer.start()
    try:
        yield streams
    finally:
        streams.close()
        writer.join(LAST_WORDS)

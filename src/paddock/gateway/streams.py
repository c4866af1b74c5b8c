"""Messages to a client as server-sent events: numbered, and kept for a while for a client that comes back for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

KEPT_EVENTS: Final = 256
KEPT_BYTES: Final = 1024 * 1024
KEPT_STREAMS: Final = 64  # of one session, beside those that are under way
HEARTBEAT: Final = 15.0  # seconds of silence before a comment shows that both ends are alive

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


class Stream:
    """What is told about one request, or about none in particular. One reader has it at a time: the last who came.

    Args:
        name: Of the stream; the ids of its events begin with it. Empty: its events have none, and nobody can come back.
        primed: Whether it begins with an event that has nothing but an id.
    """

    def __init__(self, name: str = "", *, primed: bool = False) -> None:
        self.name = name
        self.ended = False
        self.followed = False  # whether somebody reads it
        self.read_to = 0  # the last event that was written to somebody
        self._primed = primed and bool(name)
        self._kept: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._count = 0
        self._readers = 0
        self._news = asyncio.Event()

    def put(self, message: bytes) -> None:
        """One more message. The oldest are forgotten where there are too many."""
        self._count += 1
        self._kept.append((self._count, message))
        self._bytes += len(message)
        while len(self._kept) > KEPT_EVENTS or (self._bytes > KEPT_BYTES and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft()[1])
        self._news.set()

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self._news.set()

    async def read(self, write: Write, after: int | None = None) -> None:
        """Write everything from the beginning or from behind an event, and what comes, until the end or until somebody
        else reads it."""
        self._readers += 1
        self._news.set()  # whoever read it before looks up, and goes
        mine, self.followed = self._readers, True
        try:
            if after is None:
                after = 0
                if self._primed:
                    await write(b"id: %b-0\ndata: \n\n" % self.name.encode())
            while mine == self._readers:
                self._news.clear()
                for number, message in [one for one in self._kept if one[0] > after]:
                    await write(self._event(number, message))
                    after = number
                    self.read_to = max(self.read_to, number)
                if self.ended and not (self._kept and self._kept[-1][0] > after):
                    return
                if not self._news.is_set():
                    await self._wait(write)
        finally:
            if mine == self._readers:
                self.followed = False

    async def _wait(self, write: Write) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._news.wait()
        except TimeoutError:
            await write(b": alive\n\n")

    def _event(self, number: int, message: bytes) -> bytes:
        if not self.name:
            return b"event: message\ndata: %b\n\n" % message
        return b"event: message\nid: %b-%d\ndata: %b\n\n" % (self.name.encode(), number, message)


class Streams:
    """The streams of one session, by name."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._count = 0

    def open(self, *, primed: bool) -> Stream:
        """A new stream. The oldest that ended are forgotten where there are too many."""
        self._count += 1
        name = str(self._count)
        over = [old for old, stream in self._streams.items() if stream.ended]
        for old in over[: max(0, len(over) - KEPT_STREAMS + 1)]:
            del self._streams[old]
        stream = self._streams[name] = Stream(name, primed=primed)
        return stream

    def found(self, event: str) -> tuple[Stream, int] | None:
        """The stream of an event and its number in it; None where nobody remembers it."""
        name, _, number = event.partition("-")
        stream = self._streams.get(name)
        if stream is None or not (number.isascii() and number.isdigit() and len(number) < 10):
            return None
        return stream, int(number)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.end()

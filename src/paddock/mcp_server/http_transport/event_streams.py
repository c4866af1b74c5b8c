"""Messages to a client as server-sent events: numbered, and kept for a while for a client that comes back for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

MAX_BUFFERED_EVENTS: Final = 256
MAX_BUFFERED_BYTES: Final = 1024 * 1024
MAX_ENDED_STREAMS: Final = 64  # of one session, beside those that are under way
MAX_ENDED_BYTES: Final = 64 * 1024 * 1024  # bytes of streams that have ended, of all sessions
HEARTBEAT_S: Final = 15.0  # seconds of silence before a comment shows that both ends are alive

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


class EventStream:
    """What is told about one request, or about none in particular. One reader has it at a time: the last who came.

    Args:
        name: Of the stream; the ids of its events begin with it. Empty: its events have none, and nobody can come back.
        primed: Whether it begins with an event that has nothing but an id.
        over: Hears that it has ended.
    """

    def __init__(
        self, name: str = "", *, primed: bool = False, over: Callable[[EventStream], None] = lambda _: None
    ) -> None:
        self.name = name
        self.ended = False
        self.has_reader = False  # whether somebody reads it
        self.last_read = 0  # the last event that was written to somebody
        self._primed = primed and bool(name)
        self._kept: deque[tuple[int, bytes]] = deque()
        self.size = 0  # bytes that are kept
        self._over = over
        self._count = 0
        self._readers = 0
        self._news = asyncio.Event()

    def put(self, message: bytes) -> None:
        """One more message. The oldest are forgotten where there are too many."""
        self._count += 1
        self._kept.append((self._count, message))
        self.size += len(message)
        while len(self._kept) > MAX_BUFFERED_EVENTS or (self.size > MAX_BUFFERED_BYTES and len(self._kept) > 1):
            self.size -= len(self._kept.popleft()[1])
        self._news.set()

    def put_unless_pending(self, message: bytes) -> None:
        """The same, unless it says what is still to be read: who has not looked yet learns no more from hearing it
        again, and streams that nobody reads do not grow."""
        if not any(one == message for number, one in self._kept if number > self.last_read):
            self.put(message)

    def end(self) -> None:
        """Nothing more will come."""
        if not self.ended:
            self.ended = True
            self._over(self)
        self._news.set()

    def clear(self) -> None:
        """Keep nothing for anybody who comes back."""
        self._kept.clear()
        self.size = 0

    async def read(self, write: Write, after: int | None = None) -> None:
        """Write everything from the beginning or from behind an event, and what comes, until the end or until somebody
        else reads it."""
        self._readers += 1
        self._news.set()  # whoever read it before looks up, and goes
        mine, self.has_reader = self._readers, True
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
                    self.last_read = max(self.last_read, number)
                if self.ended and not (self._kept and self._kept[-1][0] > after):
                    return
                if not self._news.is_set():
                    await self._wait(write)
        finally:
            if mine == self._readers:
                self.has_reader = False

    async def _wait(self, write: Write) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._news.wait()
        except TimeoutError:
            await write(b": alive\n\n")

    def _event(self, number: int, message: bytes) -> bytes:
        if not self.name:
            return b"event: message\ndata: %b\n\n" % message
        return b"event: message\nid: %b-%d\ndata: %b\n\n" % (self.name.encode(), number, message)


class EndedStreams:
    """The streams of all sessions that have ended, for clients that lost theirs at the very end. However many there
    are, what is kept of them has a bound: the oldest are forgotten first."""

    def __init__(self, most: int = MAX_ENDED_BYTES) -> None:
        self._most = most
        self._streams: OrderedDict[EventStream, int] = OrderedDict()
        self._size = 0

    def keep(self, stream: EventStream) -> None:
        self._streams[stream] = stream.size
        self._size += stream.size
        while self._size > self._most:
            oldest = next(iter(self._streams))
            self.drop(oldest)
            oldest.clear()

    def drop(self, stream: EventStream) -> None:
        """Nobody comes back for it. Harmless where it is not kept."""
        self._size -= self._streams.pop(stream, 0)


class SessionStreams:
    """The streams of one session, by name.

    Args:
        ended: Keeps those that have ended.
    """

    def __init__(self, ended: EndedStreams) -> None:
        self._ended = ended
        self._streams: dict[str, EventStream] = {}
        self._count = 0

    def open(self, *, primed: bool) -> EventStream:
        """A new stream. The oldest that ended are forgotten where there are too many."""
        self._count += 1
        name = str(self._count)
        over = [old for old, stream in self._streams.items() if stream.ended]
        for old in over[: max(0, len(over) - MAX_ENDED_STREAMS + 1)]:
            self._ended.drop(self._streams.pop(old))
        stream = self._streams[name] = EventStream(name, primed=primed, over=self._ended.keep)
        return stream

    def find(self, event: str) -> tuple[EventStream, int] | None:
        """The stream of an event and its number in it; None where nobody remembers it."""
        name, _, number = event.partition("-")
        stream = self._streams.get(name)
        if stream is None or not (number.isascii() and number.isdigit() and len(number) < 10):
            return None
        if stream.ended and not stream.size:
            return None
        return stream, int(number)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.end()
            self._ended.drop(stream)

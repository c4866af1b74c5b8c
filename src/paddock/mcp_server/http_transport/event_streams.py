"""Resumable streams of server-sent events, buffered for clients that reconnect."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

MAX_BUFFERED_EVENTS: Final = 256
MAX_BUFFERED_BYTES: Final = 1024 * 1024
MAX_ENDED_STREAMS: Final = 64  # per session, beside the open ones
MAX_ENDED_BYTES: Final = 64 * 1024 * 1024  # of ended streams, over all sessions
HEARTBEAT_S: Final = 15.0  # silence after which a keep-alive comment is sent

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


class EventStream:
    """The messages about one request, or about none in particular. The latest reader replaces the one before.

    Args:
        name: Prefix of its event ids. Empty: events have no ids, and clients cannot resume.
        primed: Whether it starts with an event that has only an id.
        on_end: Called when it has ended.
    """

    def __init__(
        self, name: str = "", *, primed: bool = False, on_end: Callable[[EventStream], None] = lambda _: None
    ) -> None:
        self.name = name
        self.ended = False
        self.has_reader = False
        self.last_read = 0  # number of the last event written to a reader
        self._primed = primed and bool(name)
        self._buffer: deque[tuple[int, bytes]] = deque()
        self.size = 0  # buffered bytes
        self._on_end = on_end
        self._count = 0
        self._readers = 0
        self._wake = asyncio.Event()

    def put(self, message: bytes) -> None:
        """Append a message. The oldest are dropped if the buffer is full."""
        self._count += 1
        self._buffer.append((self._count, message))
        self.size += len(message)
        while len(self._buffer) > MAX_BUFFERED_EVENTS or (self.size > MAX_BUFFERED_BYTES and len(self._buffer) > 1):
            self.size -= len(self._buffer.popleft()[1])
        self._wake.set()

    def put_unless_pending(self, message: bytes) -> None:
        """Append a message unless the same one is still unread.

        Repeating it tells a slow client nothing new, and streams without a reader do not grow.
        """
        if not any(pending == message for number, pending in self._buffer if number > self.last_read):
            self.put(message)

    def end(self) -> None:
        """Mark the stream as complete."""
        if not self.ended:
            self.ended = True
            self._on_end(self)
        self._wake.set()

    def clear(self) -> None:
        """Drop the buffer; clients can no longer resume."""
        self._buffer.clear()
        self.size = 0

    async def read(self, write: Write, after: int | None = None) -> None:
        """Write all events after `after`, and new ones, until the stream ends or another reader takes over."""
        self._readers += 1
        self._wake.set()  # wakes the previous reader, which then leaves
        reader, self.has_reader = self._readers, True
        try:
            if after is None:
                after = 0
                if self._primed:
                    await write(b"id: %b-0\ndata: \n\n" % self.name.encode())
            while reader == self._readers:
                self._wake.clear()
                for number, message in [event for event in self._buffer if event[0] > after]:
                    await write(self._event(number, message))
                    after = number
                    self.last_read = max(self.last_read, number)
                if self.ended and not (self._buffer and self._buffer[-1][0] > after):
                    return
                if not self._wake.is_set():
                    await self._wait(write)
        finally:
            if reader == self._readers:
                self.has_reader = False

    async def _wait(self, write: Write) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._wake.wait()
        except TimeoutError:
            await write(b": alive\n\n")

    def _event(self, number: int, message: bytes) -> bytes:
        if not self.name:
            return b"event: message\ndata: %b\n\n" % message
        return b"event: message\nid: %b-%d\ndata: %b\n\n" % (self.name.encode(), number, message)


class EndedStreams:
    """Ended streams of all sessions, kept for clients that lost the connection at the very end.

    Their total size is bounded: the oldest are dropped first.
    """

    def __init__(self, max_bytes: int = MAX_ENDED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._streams: OrderedDict[EventStream, int] = OrderedDict()
        self._size = 0

    def keep(self, stream: EventStream) -> None:
        self._streams[stream] = stream.size
        self._size += stream.size
        while self._size > self._max_bytes:
            oldest = next(iter(self._streams))
            self.drop(oldest)
            oldest.clear()

    def drop(self, stream: EventStream) -> None:
        """Forget a stream. No effect if it is not kept."""
        self._size -= self._streams.pop(stream, 0)


class SessionStreams:
    """The streams of one session, by name.

    Args:
        ended: Keeps the ended ones.
    """

    def __init__(self, ended: EndedStreams) -> None:
        self._ended = ended
        self._streams: dict[str, EventStream] = {}
        self._count = 0

    def open(self, *, primed: bool) -> EventStream:
        """Open a stream. The oldest ended ones are forgotten if there are too many."""
        self._count += 1
        name = str(self._count)
        ended_names = [ended_name for ended_name, stream in self._streams.items() if stream.ended]
        for ended_name in ended_names[: max(0, len(ended_names) - MAX_ENDED_STREAMS + 1)]:
            self._ended.drop(self._streams.pop(ended_name))
        stream = self._streams[name] = EventStream(name, primed=primed, on_end=self._ended.keep)
        return stream

    def find(self, event_id: str) -> tuple[EventStream, int] | None:
        """Return the stream of an event id and its number; None if it is no longer buffered."""
        name, _, number = event_id.partition("-")
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

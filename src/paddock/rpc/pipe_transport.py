"""A transport over two pipes, and the hand-over of a pipe to the event loop.

A descriptor given to the event loop must be closed exactly once. The loop of the standard library closes a pipe by
closing the object that it was given. uvloop closes the descriptor by itself, and the object too: by then its number may
be a file that another thread has just opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Generator
from select import PIPE_BUF
from threading import Lock
from typing import Any, Final, TypeVar

from paddock.rpc.errors import RESOURCE_BUSY, PeerLost, RpcError
from paddock.rpc.inbox import Inbox
from paddock.rpc.transport import MAX_BACKLOG_BYTES, STALL_TIMEOUT_S, Receiver, StallDetector

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connect_read_pipe(protocol: Callable[[], P], number: int) -> asyncio.ReadTransport:
    """Read from a descriptor, which belongs to the event loop from here on.

    Raises:
        OSError, ValueError: It is not open, or no pipe; it is closed.
    """
    loop, pipe = asyncio.get_running_loop(), _LoopPipe(number)
    with pipe.closed_unless_taken():
        transport, _ = await loop.connect_read_pipe(protocol, pipe)
    return transport


async def connect_write_pipe(protocol: Callable[[], P], number: int) -> asyncio.WriteTransport:
    """Write to a descriptor, which belongs to the event loop from here on.

    Raises:
        OSError, ValueError: It is not open, or no pipe; it is closed.
    """
    loop, pipe = asyncio.get_running_loop(), _LoopPipe(number)
    with pipe.closed_unless_taken():
        transport, _ = await loop.connect_write_pipe(protocol, pipe)
    return transport


class _LoopPipe:
    """As much of a file object as event loops need."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._loop_closes = type(asyncio.get_running_loop()).__module__.partition(".")[0] == "uvloop"

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        """Close it for the event loop, unless the loop closes the descriptor itself."""
        if not self._loop_closes:
            self._close()

    @contextlib.contextmanager
    def closed_unless_taken(self) -> Generator[None, None, None]:
        try:
            yield
        except Exception:
            # The loop did not take it. Where the caller was merely cancelled, the loop closes what it took.
            self._close()
            raise

    def _close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            with contextlib.suppress(OSError):
                os.close(number)


FINAL_WRITE_TIMEOUT_S: Final = 1.0
"""How long a side that has closed its input may still send, so that responses on their way are not lost."""


async def open_pipe_transport(
    read_fd: int,
    write_fd: int,
    receiver: Receiver,
    *,
    max_backlog: int = MAX_BACKLOG_BYTES,
    stalled_after: float = STALL_TIMEOUT_S,
) -> PipeTransport:
    """Connect the two descriptors to a receiver. From here on the transport closes them, whatever happens.

    Nothing is delivered before `start`.

    Raises:
        OSError, ValueError: A descriptor is not open, or no pipe; both are closed.
    """
    transport = PipeTransport(receiver, max_backlog, stalled_after)
    try:
        await connect_write_pipe(lambda: _WriteProtocol(transport, write_fd), write_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(read_fd)
        transport.close()
        raise
    try:
        await connect_read_pipe(lambda: _ReadProtocol(transport), read_fd)
    except BaseException:
        transport.close()
        raise
    return transport


class PipeTransport:
    """Lines over two pipes. Implements `Transport`. Made by `open_pipe_transport`."""

    def __init__(self, receiver: Receiver, max_backlog: int, stalled_after: float) -> None:
        self._max_backlog = max_backlog
        self._inbox = Inbox(receiver, self._pause, self._resume)
        self._stall = StallDetector(stalled_after, lambda: self.backlog, receiver.stalled)
        self._read: asyncio.ReadTransport | None = None
        self._write: asyncio.WriteTransport | None = None
        self._write_fd = -1
        # Held while something is written, and while sending is ended: another thread may write.
        self._write_lock = Lock()
        # The first line in a turn of the event loop is written at once, since a caller waits for its response. The rest
        # of the turn is written together: a system call costs more than a line.
        self._write_immediately = True
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._open_ends = 0
        self._paused = True
        self._closed_reason: str | None = None  # why nothing can be sent any more
        self._closed = False
        self._finished = False
        self._final_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._all_closed: asyncio.Future[None] | None = None

    @property
    def backlog(self) -> int:
        return (
            0
            if self._write is None or self._closed_reason is not None
            else self._queued_bytes + self._write.get_write_buffer_size()
        )

    def start(self) -> None:
        self._inbox.start()

    def send(self, frame: bytes) -> None:
        write = self._write
        if self._closed_reason is not None or write is None:
            raise PeerLost(self._closed_reason or "the connection is not open")
        waiting = self._queued_bytes + write.get_write_buffer_size()
        if waiting > self._max_backlog:
            raise RpcError(RESOURCE_BUSY, f"{waiting} bytes wait to be read, no more is accepted")
        if self._write_immediately:
            self._write_immediately = False
            asyncio.get_running_loop().call_soon(self._flush)
            with self._write_lock:
                write.write(frame)
            self._stall.queued(len(frame))
        else:
            self._queue.append(frame)
            self._queued_bytes += len(frame)

    def send_at_once(self, frame: bytes) -> bool:
        if len(frame) > PIPE_BUF:
            return False  # it might be written in parts
        with self._write_lock:
            if (
                self._closed_reason is not None
                or self._write is None
                or self._queued_bytes
                or self._write.get_write_buffer_size()
            ):
                return False
            try:
                return os.write(self._write_fd, frame) == len(frame)
            except OSError:
                return False  # the pipe is full, or gone: the event loop handles that

    async def drained(self) -> None:
        while self.backlog:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self._closed_reason is not None:
            raise PeerLost(self._closed_reason)

    def finish(self) -> None:
        if self._closed or self._finished:
            return
        self._finished = True
        self._flush()
        self._end_sending("nothing more is sent")
        if self._write is not None:
            self._write.close()  # once what is queued is written

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._inbox.stop()
        self._flush()
        self._end_sending("the connection was closed")
        if self._final_timer is not None:
            self._final_timer.cancel()
        if self._read is not None:
            self._read.close()
        # A write end that is closing must not be closed twice; one that finishes may still wait for its reader.
        if self._write is not None and (self._finished or not self._write.is_closing()):
            self._write.abort()  # close() would wait for a reader that may never read

    async def wait_closed(self) -> None:
        while self._open_ends:
            if self._all_closed is None:
                self._all_closed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_closed)

    def read_opened(self, read: asyncio.ReadTransport) -> None:
        self._open_ends += 1
        self._read = read
        if self._closed:
            read.close()
        elif self._paused:
            read.pause_reading()

    def write_opened(self, write: asyncio.WriteTransport, descriptor: int) -> None:
        self._open_ends += 1
        self._write, self._write_fd = write, descriptor
        # With both limits at zero we are notified each time the buffer becomes empty.
        write.set_write_buffer_limits(high=0, low=0)
        if self._closed:
            write.abort()

    def received(self, data: bytes) -> None:
        self._inbox.feed(data)

    def emptied(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def read_ended(self) -> None:
        self._end_closed()
        self._read = None
        self._end_sending("the other side closed its output")
        self._inbox.end("the other side closed its output")

    def write_ended(self) -> None:
        self._end_closed()
        self._end_sending("the other side closed its input")
        self._write = None
        if self._read is not None and not self._closed and not self._finished:
            loop = asyncio.get_running_loop()
            self._final_timer = loop.call_later(
                FINAL_WRITE_TIMEOUT_S, self._inbox.end, "the other side closed its input"
            )

    def _flush(self) -> None:
        self._write_immediately = True
        if not self._queue or self._write is None:
            return
        size = self._queued_bytes
        frames, self._queue = self._queue, []
        with self._write_lock:
            self._queued_bytes = 0
            self._write.write(frames[0] if len(frames) == 1 else b"".join(frames))
        self._stall.queued(size)
        if not self._write.get_write_buffer_size():
            self.emptied()

    def _end_sending(self, reason: str) -> None:
        if self._closed_reason is None:
            with self._write_lock:
                self._closed_reason = reason
            self._stall.stop()
            self.emptied()

    def _end_closed(self) -> None:
        self._open_ends -= 1
        if not self._open_ends and self._all_closed is not None:
            self._all_closed.set_result(None)
            self._all_closed = None

    def _pause(self) -> None:
        self._paused = True
        if self._read is not None and not self._closed:
            self._read.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        if self._read is not None and not self._closed:
            self._read.resume_reading()


class _ReadProtocol(asyncio.Protocol):
    """The event loop's view of the pipe we read."""

    def __init__(self, transport: PipeTransport) -> None:
        self._transport = transport
        self.data_received = transport.received  # no call in between: this runs for every chunk

    def connection_made(self, transport: Any) -> None:
        self._transport.read_opened(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport.read_ended()


class _WriteProtocol(asyncio.BaseProtocol):
    """The event loop's view of the pipe we write."""

    def __init__(self, transport: PipeTransport, descriptor: int) -> None:
        self._transport = transport
        self._descriptor = descriptor

    def connection_made(self, transport: Any) -> None:
        self._transport.write_opened(transport, self._descriptor)

    def resume_writing(self) -> None:
        self._transport.emptied()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport.write_ended()

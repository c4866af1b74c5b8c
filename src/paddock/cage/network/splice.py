"""Relays bytes between two sockets, both ways, without copying them into Python.

The kernel moves them through a pipe (`splice`). A pipe is borrowed only while bytes are in transit, so an idle
connection costs two descriptors. Where the kernel cannot splice a socket, the bytes go through a buffer instead.
Each side may close its half and still receive. One callback moves a bounded amount, so that a fast connection
does not starve the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable
from typing import Protocol

PIPE_BYTES = 256 * 1024
_MAX_ROUNDS = 8  # pipefuls that one direction may move before others have their turn
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_SPLICE_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_MAX_FREE_PIPES = 16


class RelayIdle(Exception):
    """Nothing moved either way for too long."""


class _ByteChannel(Protocol):
    """Holds bytes between two sockets."""

    held: int

    def fill(self, source: socket.socket) -> int: ...

    def drain(self, sink: socket.socket) -> int: ...

    def close(self) -> None: ...


class _SplicePipe:
    def __init__(self) -> None:
        self.held = 0
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # an ordinary user may have only so many large pipes
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def fill(self, source: socket.socket) -> int:
        moved = os.splice(source.fileno(), self._in, PIPE_BYTES, flags=_FLAGS)
        self.held += moved
        return moved

    def drain(self, sink: socket.socket) -> int:
        moved = os.splice(self._out, sink.fileno(), self.held, flags=_FLAGS)
        self.held -= moved
        return moved

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)


class _CopyBuffer:
    def __init__(self) -> None:
        self.held = 0
        self._start = 0
        self._bytes = memoryview(bytearray(PIPE_BYTES // 4))

    def fill(self, source: socket.socket) -> int:
        self._start = 0
        self.held = source.recv_into(self._bytes)
        return self.held

    def drain(self, sink: socket.socket) -> int:
        moved = sink.send(self._bytes[self._start : self._start + self.held])
        self._start += moved
        self.held -= moved
        return moved

    def close(self) -> None:
        self._bytes.release()


class PipePool:
    """Empty pipes to borrow. One for the whole daemon; its creator closes it."""

    def __init__(self, *, splice: bool = True) -> None:
        self._splice = splice
        self._free: list[_ByteChannel] = []

    def take(self) -> _ByteChannel:
        if self._free:
            return self._free.pop()
        return _SplicePipe() if self._splice else _CopyBuffer()

    def give_back(self, channel: _ByteChannel) -> None:
        """Return a channel. One that still holds bytes would leak them to another connection, so it is closed."""
        if channel.held or len(self._free) >= _MAX_FREE_PIPES:
            channel.close()
        else:
            self._free.append(channel)

    def disable_splice(self) -> None:
        """Copy bytes from now on: this kernel does not splice sockets."""
        self._splice = False
        self.close()

    def close(self) -> None:
        while self._free:
            self._free.pop().close()


class SpliceRelay:
    """Joins two sockets. Both must be non-blocking, and stay the caller's to close.

    `used` is called each time before data is passed on.
    """

    def __init__(
        self, near: socket.socket, far: socket.socket, pipes: PipePool, used: Callable[[], None] = lambda: None
    ) -> None:
        self._done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self._outbound = _Direction(near, far, pipes, self._direction_ended, used)
        self._inbound = _Direction(far, near, pipes, self._direction_ended, used)
        self._open = 2

    @property
    def bytes_up(self) -> int:
        """Bytes carried from near to far."""
        return self._outbound.moved

    @property
    def bytes_down(self) -> int:
        """Bytes carried from far to near."""
        return self._inbound.moved

    async def run(self, *, idle_seconds: float) -> None:
        """Relay until both sides have ended.

        Raises:
            OSError: One side broke off.
            RelayIdle: Nothing moved for `idle_seconds` (at least; at most twice as long).
        """
        self._outbound.start()
        self._inbound.start()
        try:
            while not self._done.done():
                before = self.bytes_up + self.bytes_down
                await asyncio.wait([self._done], timeout=idle_seconds)
                if not self._done.done() and self.bytes_up + self.bytes_down == before:
                    raise RelayIdle
        finally:
            self._outbound.stop()
            self._inbound.stop()
        failure = self._done.result()
        if failure is not None:
            raise failure

    def _direction_ended(self, failure: OSError | None) -> None:
        self._open -= 1
        if (failure is not None or self._open == 0) and not self._done.done():
            self._done.set_result(failure)


class _Direction:
    """One direction: waits for the source to have bytes, or, while the sink is full, for the sink to take some."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        pipes: PipePool,
        ended: Callable[[OSError | None], None],
        used: Callable[[], None],
    ) -> None:
        self.moved = 0
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._sink = sink
        self._pipes = pipes
        self._ended = ended
        self._used = used
        self._channel: _ByteChannel | None = None

    def start(self) -> None:
        self._loop.add_reader(self._source, self._readable)

    def stop(self) -> None:
        """Stop at once. May be called again."""
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sink)
        self._release_channel()

    def _readable(self) -> None:
        try:
            for _ in range(_MAX_ROUNDS):
                if not self._fill():
                    self._finish()
                    return
                self._used()
                if not self._drain():
                    self._loop.remove_reader(self._source)
                    self._loop.add_writer(self._sink, self._writable)
                    return
        except BlockingIOError:
            self._release_channel()
        except OSError as failure:
            self._fail(failure)

    def _writable(self) -> None:
        self._used()
        try:
            if self._drain():
                self._loop.remove_writer(self._sink)
                self._loop.add_reader(self._source, self._readable)
        except OSError as failure:
            self._fail(failure)

    def _fill(self) -> int:
        if self._channel is None:
            self._channel = self._pipes.take()
        try:
            return self._channel.fill(self._source)
        except OSError as failure:
            if failure.errno not in _SPLICE_UNSUPPORTED or isinstance(self._channel, _CopyBuffer):
                raise
        self._release_channel()
        self._pipes.disable_splice()
        self._channel = self._pipes.take()
        return self._channel.fill(self._source)

    def _drain(self) -> bool:
        """Whether the sink took everything."""
        channel = self._channel
        while channel is not None and channel.held:
            try:
                self.moved += channel.drain(self._sink)
            except BlockingIOError:
                return False
        return True

    def _finish(self) -> None:
        self.stop()
        with contextlib.suppress(OSError):  # the other side may be gone already
            self._sink.shutdown(socket.SHUT_WR)
        self._ended(None)

    def _fail(self, failure: OSError) -> None:
        self.stop()
        self._ended(failure)

    def _release_channel(self) -> None:
        if self._channel is not None:
            self._pipes.give_back(self._channel)
            self._channel = None

"""The host's ends of the two pipes on which one plugin process sends and gets artifacts.

What is read is on the disk before more is read, and what is sent is read from the disk when there is room for it: a
transfer never holds more than one piece in memory, however big the artifact is and whether or not anybody reads.
A plugin that breaks the rules here loses its pipes, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

from paddock.capabilities.pipes.frames import FRAME_HEADER, FrameChunk, FrameParser, FramingError
from paddock.capabilities.pipes.incoming_transfer import IncomingTransfer
from paddock.core.errors import Busy, CallerError

MAX_STREAMS = 8  # under way at once in one process
CHUNK_BYTES = 256 * 1024
STALL_TIMEOUT_S = 60.0  # that a plugin may leave unread what it asked for
MAX_STALLED_STREAMS = 32  # transfers that are remembered after nothing came of them for too long
MAX_STRAY_BYTES = 1 << 20  # bytes that nobody waits for, in the life of a process: a few may be on their way

# Gives the next piece of what is sent, and nothing at its end.
NextChunk: TypeAlias = Callable[[], Awaitable[bytes]]


class PipeChannel:
    """One process's pipes. Opened by `open_channel`."""

    def __init__(self, source: int, sink: int, on_violation: Callable[[str], None]) -> None:
        self._source = source
        self._sink = sink
        self._on_violation = on_violation
        self._loop = asyncio.get_running_loop()
        self._frames = FrameParser()
        self._transfers: dict[int, IncomingTransfer] = {}
        self._stalled: dict[int, IncomingTransfer] = {}  # over, and kept to say why; the oldest first
        self._senders: set[asyncio.Task[None]] = set()
        self._write_lock = asyncio.Lock()
        self._last = 0
        self._stray = 0
        self._closed = ""  # why
        self._reader = self._loop.create_task(self._read())

    def expect(self, arrival: IncomingTransfer) -> int:
        """The number under which the plugin may send this.

        Raises:
            Busy: too many transfers are under way.
            CallerError: the pipes are closed.
        """
        stream = self._next_stream()
        self._transfers[stream] = arrival
        arrival.on_stalled = partial(self._forget_stalled, stream)
        return stream

    def find_transfer(self, stream: int) -> IncomingTransfer:
        """What was announced under this number; one that stalled says so to whoever waits for it.

        Raises:
            CallerError: nothing was, or it is over.
        """
        arrival = self._transfers.get(stream) or self._stalled.get(stream)
        if arrival is None:
            raise CallerError(
                f"no transfer {stream} is under way{f': {self._closed}' if self._closed else ''}",
                code="artifacts.unknown_stream",
                hint="begin one with artifacts.put",
            )
        return arrival

    def forget_transfer(self, stream: int) -> None:
        """Nobody waits for this any more; a few bytes of it may still come."""
        arrival = self._transfers.pop(stream, None)
        if arrival is not None:
            arrival.release()

    def _forget_stalled(self, stream: int) -> None:
        """It makes room for others. Should the plugin go on sending, its bytes are expected and thrown away."""
        arrival = self._transfers.pop(stream, None)
        if arrival is None:
            return
        arrival.release()
        self._stalled[stream] = arrival
        if len(self._stalled) > MAX_STALLED_STREAMS:
            del self._stalled[next(iter(self._stalled))]

    def send(self, next_piece: NextChunk, done: Callable[[], None]) -> int:
        """Send pieces until there are no more, beside everything else; gives the number under which they come.

        Args:
            next_piece: Asked when there is room for one more.
            done: Called once, however it ends.

        Raises:
            Busy: too many transfers are under way.
            CallerError: the pipes are closed.
        """
        stream = self._next_stream()
        task = self._loop.create_task(self._send(stream, next_piece))
        self._senders.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._senders.discard(task)
            done()
            if not task.cancelled() and (error := task.exception()) is not None:
                self.close(f"an artifact could not be read: {error}")

        task.add_done_callback(ended)
        return stream

    def close(self, reason: str) -> None:
        """Let go of the pipes; every transfer under way ends. Harmless when they are gone already."""
        if self._closed:
            return
        self._closed = reason
        for task in (self._reader, *self._senders):
            task.cancel()
        for stream in list(self._transfers):
            self._transfers[stream].fail(CallerError(f"the transfer ended: {reason}", code="artifacts.channel_closed"))
            self.forget_transfer(stream)
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sink)
        os.close(self._source)
        os.close(self._sink)

    def _next_stream(self) -> int:
        if self._closed:
            raise CallerError(
                f"the pipes for artifacts are closed: {self._closed}",
                code="artifacts.channel_closed",
                hint="small ones can still travel in the message itself",
            )
        if len(self._transfers) + len(self._senders) >= MAX_STREAMS:
            raise Busy(
                f"{MAX_STREAMS} transfers are under way", code="artifacts.busy", hint="finish or commit one first"
            )
        self._last += 1
        return self._last

    # --- what comes ---------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            await self._ready(self._loop.add_reader, self._loop.remove_reader, self._source)
            try:
                data = os.read(self._source, CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                self.close(f"reading failed: {error.strerror}")
                return
            if not data:
                self._source_closed()
                return
            try:
                for piece in self._frames.feed(data):
                    await self._handle_chunk(piece)
            except FramingError as wrong:
                self._report_violation(str(wrong))
                return

    async def _handle_chunk(self, piece: FrameChunk) -> None:
        arrival = self._transfers.get(piece.stream) or self._stalled.get(piece.stream)
        if arrival is None:
            self._stray += len(piece.content) + FRAME_HEADER.size
        elif piece.content:
            self._stray += await arrival.write_chunk(piece.content)
        else:
            arrival.end()
        if self._stray > MAX_STRAY_BYTES:
            raise FramingError(f"more than {MAX_STRAY_BYTES} bytes came that nobody waits for")

    def _source_closed(self) -> None:
        """It closed its end: nothing more will come. What it asked for is still sent."""
        for arrival in self._transfers.values():
            arrival.fail(CallerError("the plugin closed its pipe", code="artifacts.channel_closed"))

    def _report_violation(self, detail: str) -> None:
        self.close(detail)
        self._on_violation(detail)

    # --- what goes ----------------------------------------------------------------------------------------------------

    async def _send(self, stream: int, next_piece: NextChunk) -> None:
        piece = b"."
        while piece:
            piece = await next_piece()
            # One frame at a time: frames of different transfers may alternate, their bytes may not.
            async with self._write_lock:
                await self._write(FRAME_HEADER.pack(stream, len(piece)) + piece)

    async def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._sink, rest) :]
            except BlockingIOError:
                try:
                    async with asyncio.timeout(STALL_TIMEOUT_S):
                        await self._ready(self._loop.add_writer, self._loop.remove_writer, self._sink)
                except TimeoutError:
                    self._report_violation(f"what it asked for was not read for {STALL_TIMEOUT_S:g} s")
                    return
            except OSError as error:
                self.close(f"the plugin reads no more: {error.strerror}")
                return

    async def _ready(self, watch: Callable[..., None], unwatch: Callable[[int], object], descriptor: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        watch(descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            if not self._closed:
                unwatch(descriptor)


@asynccontextmanager
async def open_channel(
    ends: tuple[int, int] | None, on_violation: Callable[[str], None]
) -> AsyncGenerator[PipeChannel | None, None]:
    """The channel over these two pipes for as long as the block runs; none where there are none.

    Args:
        ends: A descriptor to read from and one to write to. They are the channel's from here on.
        on_violation: Told when the plugin broke the rules, and what it did.
    """
    if ends is None:
        yield None
        return
    for descriptor in ends:
        os.set_blocking(descriptor, False)
        # Room for some pieces, so that both sides work at once; where a user's pipes are many it stays as it is.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 4 * CHUNK_BYTES)
    channel = PipeChannel(*ends, on_violation)
    try:
        yield channel
    finally:
        channel.close("the process ended")

"""The host's ends of the two pipes on which a plugin process transfers artifacts.

Received bytes are on disk before more are read, and sent bytes are read from disk when the pipe has room: a transfer
never holds more than one chunk in memory, however big the artifact is and whether or not the plugin reads.
A plugin that violates the protocol loses its pipes; other plugins are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from paddock.capabilities.pipes.frames import FRAME_HEADER, FrameChunk, FrameParser, FramingError
from paddock.capabilities.pipes.incoming_transfer import IncomingTransfer, RunInThread
from paddock.core.errors import Busy, CallerError

MAX_STREAMS = 8  # concurrent transfers of one process
CHUNK_BYTES = 256 * 1024
STALL_TIMEOUT_S = 60.0  # how long a plugin may leave requested bytes unread
MAX_STALLED_STREAMS = 32  # timed-out transfers that are remembered
MAX_STRAY_BYTES = 1 << 20  # unexpected bytes in a process's lifetime: a few may still be in flight

# Returns the next chunk to send; empty at the end.
NextChunk: TypeAlias = Callable[[], Awaitable[bytes]]


class PipeChannel:
    """The artifact pipes of one process. Opened by `open_channel`."""

    def __init__(self, source: int, sink: int, on_violation: Callable[[str], None]) -> None:
        self._source = source
        self._sink = sink
        self._on_violation = on_violation
        self._loop = asyncio.get_running_loop()
        self._frames = FrameParser()
        self._transfers: dict[int, IncomingTransfer] = {}
        self._stalled: dict[int, IncomingTransfer] = {}  # timed out, and remembered to say why; oldest first
        self._senders: set[asyncio.Task[None]] = set()
        self._write_lock = asyncio.Lock()
        self._last_stream = 0
        self._stray_bytes = 0
        self._close_reason = ""  # empty while open
        self._reader = self._loop.create_task(self._read())

    def expect(
        self,
        size: int,
        write: Callable[[memoryview], None],
        run_in_thread: RunInThread,
        on_released: Callable[[], None],
    ) -> IncomingTransfer:
        """Let the plugin send a transfer, under its stream number. For the arguments, see `IncomingTransfer`.

        Raises:
            Busy: too many transfers are in progress.
            CallerError: the pipes are closed.
        """
        stream = self._next_stream()
        transfer = IncomingTransfer(stream, size, write, run_in_thread, on_released, self._forget_stalled)
        self._transfers[stream] = transfer
        return transfer

    def find_transfer(self, stream: int) -> IncomingTransfer:
        """Return the announced transfer with this stream number; a stalled one fails with its reason when awaited.

        Raises:
            CallerError: none was announced, or it is over.
        """
        transfer = self._transfers.get(stream) or self._stalled.get(stream)
        if transfer is None:
            raise CallerError(
                f"no transfer {stream} is under way{f': {self._close_reason}' if self._close_reason else ''}",
                code="artifacts.unknown_stream",
                hint="begin one with artifacts.put",
            )
        return transfer

    def forget_transfer(self, stream: int) -> None:
        """Drop a transfer; a few bytes of it may still arrive."""
        transfer = self._transfers.pop(stream, None)
        if transfer is not None:
            transfer.release()

    def _forget_stalled(self, stream: int) -> None:
        """Free a stalled transfer's slot. If the plugin goes on sending, its bytes are expected and discarded."""
        transfer = self._transfers.pop(stream, None)
        if transfer is None:
            return
        transfer.release()
        self._stalled[stream] = transfer
        if len(self._stalled) > MAX_STALLED_STREAMS:
            del self._stalled[next(iter(self._stalled))]

    def send(self, next_chunk: NextChunk, on_done: Callable[[], None]) -> int:
        """Send chunks in the background until there are no more; return their stream number.

        Args:
            next_chunk: Called when the pipe has room for another chunk.
            on_done: Called once, however the transfer ends.

        Raises:
            Busy: too many transfers are in progress.
            CallerError: the pipes are closed.
        """
        stream = self._next_stream()
        task = self._loop.create_task(self._send(stream, next_chunk))
        self._senders.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._senders.discard(task)
            on_done()
            if not task.cancelled() and (error := task.exception()) is not None:
                self.close(f"an artifact could not be read: {error}")

        task.add_done_callback(ended)
        return stream

    def close(self, reason: str) -> None:
        """Close the pipes and end every transfer. Harmless if they are closed already."""
        if self._close_reason:
            return
        self._close_reason = reason
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
        if self._close_reason:
            raise CallerError(
                f"the pipes for artifacts are closed: {self._close_reason}",
                code="artifacts.channel_closed",
                hint="small ones can still travel in the message itself",
            )
        if len(self._transfers) + len(self._senders) >= MAX_STREAMS:
            raise Busy(
                f"{MAX_STREAMS} transfers are under way", code="artifacts.busy", hint="finish or commit one first"
            )
        self._last_stream += 1
        return self._last_stream

    # --- receiving ----------------------------------------------------------------------------------------------------

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
                for chunk in self._frames.feed(data):
                    await self._handle_chunk(chunk)
            except FramingError as error:
                self._report_violation(str(error))
                return

    async def _handle_chunk(self, chunk: FrameChunk) -> None:
        transfer = self._transfers.get(chunk.stream) or self._stalled.get(chunk.stream)
        if transfer is None:
            self._stray_bytes += len(chunk.content) + FRAME_HEADER.size
        elif chunk.content:
            self._stray_bytes += await transfer.write_chunk(chunk.content)
        else:
            transfer.end()
        if self._stray_bytes > MAX_STRAY_BYTES:
            raise FramingError(f"more than {MAX_STRAY_BYTES} bytes came that nobody waits for")

    def _source_closed(self) -> None:
        """Handle the plugin closing its end: nothing more arrives, but requested bytes are still sent."""
        for transfer in self._transfers.values():
            transfer.fail(CallerError("the plugin closed its pipe", code="artifacts.channel_closed"))

    def _report_violation(self, detail: str) -> None:
        self.close(detail)
        self._on_violation(detail)

    # --- sending ------------------------------------------------------------------------------------------------------

    async def _send(self, stream: int, next_chunk: NextChunk) -> None:
        chunk = b"."
        while chunk:
            chunk = await next_chunk()
            # One frame at a time: frames of different transfers may interleave, their bytes may not.
            async with self._write_lock:
                await self._write(FRAME_HEADER.pack(stream, len(chunk)) + chunk)

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
            if not self._close_reason:
                unwatch(descriptor)


@asynccontextmanager
async def open_channel(
    ends: tuple[int, int] | None, on_violation: Callable[[str], None]
) -> AsyncGenerator[PipeChannel | None, None]:
    """Open the channel over two pipes for as long as the block runs; None where there are none.

    Args:
        ends: A descriptor to read from and one to write to. The channel takes ownership of them.
        on_violation: Called with a description when the plugin violates the protocol.
    """
    if ends is None:
        yield None
        return
    for descriptor in ends:
        os.set_blocking(descriptor, False)
        # Room for some chunks, so that both sides work at once; fails where a user's pipe quota is used up.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 4 * CHUNK_BYTES)
    channel = PipeChannel(*ends, on_violation)
    try:
        yield channel
    finally:
        channel.close("the process ended")

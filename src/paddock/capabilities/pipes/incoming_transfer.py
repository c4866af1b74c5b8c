"""One incoming transfer: a number of bytes was announced, and each chunk is written to disk as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from paddock.core.errors import CallerError, PaddockError

IDLE_TIMEOUT_S = 60.0  # without a byte, or without a commit once complete

# Runs blocking work on a thread, always to its end.
RunInThread: TypeAlias = Callable[[Callable[[], None]], "asyncio.Future[None]"]


class IncomingTransfer:
    """A transfer that a plugin announced and has not committed yet.

    Args:
        stream: The stream number under which the plugin sends it.
        size: The announced number of bytes.
        write: Writes a chunk to disk. Blocks.
        run_in_thread: Runs blocking work on a thread.
        on_released: Called once, when the transfer was committed or abandoned.
        on_stalled: Called with the stream number when the transfer timed out; has to release it.
    """

    def __init__(
        self,
        stream: int,
        size: int,
        write: Callable[[memoryview], None],
        run_in_thread: RunInThread,
        on_released: Callable[[], None],
        on_stalled: Callable[[int], None],
    ) -> None:
        self.stream = stream
        self.size = size
        self.received = 0
        self._write = write
        self._run_in_thread = run_in_thread
        self._on_released: Callable[[], None] | None = on_released
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._error: PaddockError | None = None
        self._on_stalled = on_stalled
        self._timer = self._loop.call_later(IDLE_TIMEOUT_S, self._timed_out)

    async def write_chunk(self, content: memoryview) -> int:
        """Write a chunk; return how many of its bytes exceed the announced size and were dropped."""
        self._restart_timer()
        room = self.size - self.received
        excess = max(0, len(content) - max(0, room))
        self.received += len(content)
        if excess:
            self.fail(_size_mismatch_error(f"more than the {self.size} bytes that were announced came"))
        elif self._error is None:
            try:
                await self._run_in_thread(lambda: self._write(content))
            except PaddockError as error:
                self.fail(error)
        return min(excess, len(content))

    def end(self) -> None:
        """Handle the plugin's end-of-transfer frame."""
        if self.received < self.size:
            self.fail(_size_mismatch_error(f"{self.received} bytes came, and {self.size} were announced"))
        if not self._ended.done():
            self._ended.set_result(None)

    async def wait_complete(self) -> None:
        """Wait until all bytes have arrived.

        Raises:
            PaddockError: they did not arrive, or could not be stored.
        """
        await asyncio.wait({self._ended})
        if self._error is not None:
            raise self._error
        self._timer.cancel()  # from here on only the host can be slow

    def fail(self, error: PaddockError) -> None:
        """Fail the transfer; its commit raises this error."""
        if self._error is None:
            self._error = error
        if not self._ended.done():
            self._ended.set_result(None)

    def release(self) -> None:
        """Release the transfer after its commit, or because it was abandoned."""
        self._timer.cancel()
        self.fail(_size_mismatch_error("the transfer was given up"))
        on_released, self._on_released = self._on_released, None
        if on_released is not None:
            on_released()

    def _restart_timer(self) -> None:
        self._timer.cancel()
        if self._error is None:
            self._timer = self._loop.call_later(IDLE_TIMEOUT_S, self._timed_out)

    def _timed_out(self) -> None:
        self.fail(
            CallerError(
                f"nothing came for {IDLE_TIMEOUT_S:g} s; {self.received} of {self.size} bytes were there",
                code="artifacts.stalled",
                hint="send everything, then the end, then commit",
            )
        )
        self._on_stalled(self.stream)


def _size_mismatch_error(message: str) -> CallerError:
    return CallerError(message, code="artifacts.size_mismatch", hint="announce the size, and send exactly that")

"""One transfer on its way in: so many bytes were announced, and each piece is put on the disk as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from paddock.core.errors import CallerError, PaddockError

IDLE_TIMEOUT_S = 60.0  # without a byte, or without a commit once all are there

# Runs work that blocks, and in any case to its end.
RunInThread: TypeAlias = Callable[[Callable[[], None]], "asyncio.Future[None]"]


class IncomingTransfer:
    """What a plugin announced and has not committed yet.

    Args:
        size: How many bytes were announced.
        write: Puts a piece on the disk. Blocks.
        on_thread: Runs work that blocks.
        released: Called once, when it was kept or given up.
    """

    def __init__(
        self,
        size: int,
        write: Callable[[memoryview], None],
        on_thread: RunInThread,
        released: Callable[[], None],
    ) -> None:
        self.size = size
        self.received = 0
        self._write = write
        self._on_thread = on_thread
        self._released: Callable[[], None] | None = released
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._error: PaddockError | None = None
        self.on_stalled: Callable[[], None] = self.release  # called when nothing came for too long
        self._timer = self._loop.call_later(IDLE_TIMEOUT_S, self._timed_out)

    async def write_chunk(self, content: memoryview) -> int:
        """Keep a piece. Gives how many of its bytes are beyond what was announced; those are not kept."""
        self._restart_timer()
        room = self.size - self.received
        beyond = max(0, len(content) - max(0, room))
        self.received += len(content)
        if beyond:
            self.fail(_size_mismatch_error(f"more than the {self.size} bytes that were announced came"))
        elif self._error is None:
            try:
                await self._on_thread(lambda: self._write(content))
            except PaddockError as error:
                self.fail(error)
        return min(beyond, len(content))

    def end(self) -> None:
        """The plugin says that this was all."""
        if self.received < self.size:
            self.fail(_size_mismatch_error(f"{self.received} bytes came, and {self.size} were announced"))
        if not self._over.done():
            self._over.set_result(None)

    async def wait_complete(self) -> None:
        """Wait until everything came.

        Raises:
            PaddockError: it did not, or could not be kept.
        """
        await asyncio.wait({self._over})
        if self._error is not None:
            raise self._error
        self._timer.cancel()  # from here on it is the host that takes its time

    def fail(self, error: PaddockError) -> None:
        """Nothing will come of it, for this reason; whoever commits is told."""
        if self._error is None:
            self._error = error
        if not self._over.done():
            self._over.set_result(None)

    def release(self) -> None:
        """It was kept, or nobody wants it any more."""
        self._timer.cancel()
        self.fail(_size_mismatch_error("the transfer was given up"))
        released, self._released = self._released, None
        if released is not None:
            released()

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
        self.on_stalled()


def _size_mismatch_error(message: str) -> CallerError:
    return CallerError(message, code="artifacts.size_mismatch", hint="announce the size, and send exactly that")

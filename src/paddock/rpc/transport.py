"""The interface between a peer and what carries its lines: a process's pipes, another peer in this process, …"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

MAX_BACKLOG_BYTES: Final = 1024 * 1024
"""How many bytes may be queued for a reader; beyond that, nothing more is accepted."""

STALL_TIMEOUT_S: Final = 10.0
"""How many seconds a reader may take nothing of what is queued."""


class Transport(Protocol):
    """One connection, as its peer sees it. Delivers to its `Receiver` from `start` until `close`."""

    @property
    def backlog(self) -> int:
        """How many bytes the other side has not taken yet."""
        ...

    def start(self) -> None:
        """Begin to deliver. What arrived earlier was buffered."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one line, its newline included.

        Accepted while no more than 1 MiB is queued, whatever its own size: at most one long line goes beyond.

        Raises:
            RpcError: The other side does not read (-32005).
            PeerLost: The connection is over.
        """
        ...

    def send_at_once(self, frame: bytes) -> bool:
        """Write a short line now, from any thread, where nothing is queued. Returns whether it was written."""
        ...

    async def drained(self) -> None:
        """Wait until nothing is queued any more.

        Raises:
            PeerLost: The connection is over.
        """
        ...

    def finish(self) -> None:
        """Send nothing more.

        What was sent still arrives, then the other side sees the end of its input; what it sends until it leaves is
        received. Does nothing when the connection is over.
        """
        ...

    def close(self) -> None:
        """End the connection at once and drop what cannot be written without waiting. Does nothing when over."""
        ...

    async def wait_closed(self) -> None:
        """Wait until everything the connection held is released."""
        ...


class Receiver(Protocol):
    """Gets what arrives. Called from the event loop, one call at a time, and must not raise."""

    def frame_received(self, frame: bytes) -> None:
        """One line, without its newline."""
        ...

    def violated(self, kind: str, detail: str) -> None:
        """A limit was exceeded (`oversize_message`, `too_dense`). Nothing more is delivered but `lost`."""
        ...

    def stalled(self) -> None:
        """The other side has taken nothing for 10 seconds although data is queued. Called once per stall."""
        ...

    def lost(self, reason: str) -> None:
        """The other side has ended the connection. Called once, last, and not after our own `close`."""
        ...


class StallDetector:
    """Detects a reader that stalls. Checks only while something is queued: a reader that keeps up costs nothing.

    Args:
        after: How many seconds without any progress are a stall.
        backlog: How many bytes are queued right now.
        stalled: Called once per stall.
    """

    def __init__(self, after: float, backlog: Callable[[], int], stalled: Callable[[], None]) -> None:
        self._after = after
        self._backlog = backlog
        self._stalled = stalled
        self._queued = 0  # bytes, ever
        self._taken = 0  # of these, at the last check that saw progress
        self._moved_at = 0.0
        self._reported = False
        self._timer: asyncio.TimerHandle | None = None

    def queued(self, size: int) -> None:
        """That many bytes were queued; some of them may have been taken at once."""
        self._queued += size
        if self._timer is None and self._backlog():
            self._taken = -1
            self._check()

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        waiting = self._backlog()
        if not waiting:
            return
        loop = asyncio.get_running_loop()
        taken = self._queued - waiting
        if taken != self._taken:
            self._taken, self._moved_at, self._reported = taken, loop.time(), False
        elif not self._reported and loop.time() - self._moved_at >= self._after:
            self._reported = True
            self._stalled()
            if not self._backlog():
                return
        self._timer = loop.call_later(self._after / 4, self._check)

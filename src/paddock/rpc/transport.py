"""The seam between a peer and what carries its lines: a process's pipes, another peer in this process, …"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

MAX_BACKLOG_BYTES: Final = 1024 * 1024
"""How many bytes may wait for a reader; when more do, nothing is accepted for it."""

STALL_TIMEOUT_S: Final = 10.0
"""How many seconds a reader may take nothing of what waits for it."""


class Transport(Protocol):
    """One connection, as its peer sees it. Delivers to its `Receiver` from `start` until `close`."""

    @property
    def backlog(self) -> int:
        """How many bytes the other side has not taken yet."""
        ...

    def start(self) -> None:
        """Begin to deliver. What arrived earlier has waited."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one line, its newline included.

        Taken while no more than 1 MiB waits, whatever its own size: at most one long line goes beyond.

        Raises:
            RpcFault: the other side does not take what it is sent (-32005).
            PeerLost: the connection is over.
        """
        ...

    def send_at_once(self, frame: bytes) -> bool:
        """Write a short line now, from any thread, where nothing waits before it. Tells whether it was written."""
        ...

    async def drained(self) -> None:
        """Wait until nothing waits any more.

        Raises:
            PeerLost: the connection is over.
        """
        ...

    def finish(self) -> None:
        """Send nothing more. What was sent still arrives, then the other side sees the end of its input; what it says
        until it leaves is received. Harmless when the connection is over."""
        ...

    def close(self) -> None:
        """End the connection at once; what cannot go out without waiting is dropped. Harmless when it is over."""
        ...

    async def wait_closed(self) -> None:
        """Wait until everything the connection held is given back."""
        ...


class Receiver(Protocol):
    """Who gets what arrives. Called from the event loop, one call at a time, and must not raise."""

    def frame_received(self, frame: bytes) -> None:
        """One line, without its newline."""
        ...

    def violated(self, kind: str, detail: str) -> None:
        """A bound was passed (`oversize_message`, `too_dense`). Nothing more is delivered but `lost`."""
        ...

    def stalled(self) -> None:
        """The other side has taken nothing for 10 seconds although something waits. Said once per silence."""
        ...

    def lost(self, reason: str) -> None:
        """The other side has ended the connection. Said once, last, and not after our own `close`."""
        ...


class StallDetector:
    """Looks now and then, and only while something waits: a reader that keeps up costs nothing.

    Args:
        after: How many seconds without any progress are a stall.
        backlog: How many bytes wait right now.
        stalled: Called once per silence.
    """

    def __init__(self, after: float, backlog: Callable[[], int], stalled: Callable[[], None]) -> None:
        self._after = after
        self._backlog = backlog
        self._stalled = stalled
        self._queued = 0  # bytes, ever
        self._taken = 0  # of these, when we last looked and something had moved
        self._moved_at = 0.0
        self._told = False
        self._timer: asyncio.TimerHandle | None = None

    def queued(self, size: int) -> None:
        """So much was queued; some of it may have been taken at once."""
        self._queued += size
        if self._timer is None and self._backlog():
            self._taken = -1
            self._check()

    def stop(self) -> None:
        """Look no more."""
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
            self._taken, self._moved_at, self._told = taken, loop.time(), False
        elif not self._told and loop.time() - self._moved_at >= self._after:
            self._told = True
            self._stalled()
            if not self._backlog():
                return
        self._timer = loop.call_later(self._after / 4, self._check)

"""A transport between two peers in one process, with the same limits as over pipes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from paddock.rpc.errors import RESOURCE_BUSY, PeerLost, RpcError
from paddock.rpc.inbox import Inbox
from paddock.rpc.transport import MAX_BACKLOG_BYTES, STALL_TIMEOUT_S, Receiver, StallDetector

MAX_PORTION_BYTES: Final = 64 * 1024
"""How many bytes are moved before other work has a turn; the capacity of a pipe."""


def memory_pair(
    receiver_a: Receiver,
    receiver_b: Receiver,
    *,
    max_backlog: int = MAX_BACKLOG_BYTES,
    stalled_after: float = STALL_TIMEOUT_S,
) -> tuple[MemoryTransport, MemoryTransport]:
    """Create the two ends of one connection. `receiver_a` gets what is sent on the second, `receiver_b` what is on the
    first.

    Nothing is delivered before `start`, and never while `send` runs.
    """
    first = MemoryTransport(receiver_a, max_backlog, stalled_after)
    second = MemoryTransport(receiver_b, max_backlog, stalled_after)
    first.connect(second)
    second.connect(first)
    return first, second


class MemoryTransport:
    """One end of an in-memory connection. Implements `Transport`. Made by `memory_pair`."""

    def __init__(self, receiver: Receiver, max_backlog: int, stalled_after: float) -> None:
        self._max_backlog = max_backlog
        self._peer: MemoryTransport | None = None
        self._inbox = Inbox(receiver, self._fell_behind, self._caught_up)
        self._stall = StallDetector(stalled_after, lambda: self.backlog, receiver.stalled)
        self._queue: deque[bytes] = deque()  # sent, and not yet taken by the other side
        self._size = 0
        self._listening = True
        self._keeping_up = False
        self._move_scheduled = False  # a turn of the event loop is scheduled to move what waits
        self._closed_reason: str | None = None  # why nothing can be sent any more
        self._half_open = False  # nothing is sent, and the other side still sends
        self._drained: asyncio.Future[None] | None = None

    def connect(self, other: MemoryTransport) -> None:
        self._peer = other

    @property
    def backlog(self) -> int:
        return self._size

    def start(self) -> None:
        self._inbox.start()

    def send(self, frame: bytes) -> None:
        if self._closed_reason is not None:
            raise PeerLost(self._closed_reason)
        if self._size > self._max_backlog:
            raise RpcError(RESOURCE_BUSY, f"{self._size} bytes wait to be read, no more is accepted")
        self._queue.append(frame)
        self._size += len(frame)
        self._stall.queued(len(frame))
        self._schedule_move()

    def send_at_once(self, frame: bytes) -> bool:
        del frame
        return False

    async def drained(self) -> None:
        while self._size and self._closed_reason is None:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self._closed_reason is not None:
            raise PeerLost(self._closed_reason)

    def finish(self) -> None:
        if self._closed_reason is not None:
            return
        self._finish("nothing more is sent")
        self._half_open = True
        if self._peer is not None:
            asyncio.get_running_loop().call_soon(self._end_stream, self._peer)

    def close(self) -> None:
        self._inbox.stop()
        if self._closed_reason is not None and not self._half_open:
            return
        self._half_open = False
        self._finish("the connection was closed")
        if self._peer is not None:
            # Not at once: the other side may be in the middle of a call.
            asyncio.get_running_loop().call_soon(self._close_peer, self._peer)

    async def wait_closed(self) -> None:
        """Return at once: there is nothing to release."""

    def stop_listening(self) -> None:
        """Accept nothing more from the other side, as a hanging process does."""
        self._listening = False

    def listen(self) -> None:
        """Accept again."""
        self._listening = True
        self._resume_peer()

    def _fell_behind(self) -> None:
        self._keeping_up = False

    def _caught_up(self) -> None:
        self._keeping_up = True
        self._resume_peer()

    def _resume_peer(self) -> None:
        if self._peer is not None:
            self._peer._schedule_move()

    @property
    def _accepting(self) -> bool:
        return self._listening and self._keeping_up

    def _close_peer(self, other: MemoryTransport) -> None:
        other._finish("the other side closed the connection")
        self._end_stream(other)

    def _end_stream(self, other: MemoryTransport) -> None:
        # Like a pipe: what was sent before still arrives.
        while self._queue:
            other._inbox.feed(self._queue.popleft())
        self._size = 0
        other._inbox.end("the other side closed the connection")

    def _schedule_move(self) -> None:
        if not self._move_scheduled and self._queue:
            self._move_scheduled = True
            asyncio.get_running_loop().call_soon(self._move)

    def _move(self) -> None:
        self._move_scheduled = False
        other = self._peer
        remaining = MAX_PORTION_BYTES
        while other is not None and other._accepting and self._queue and remaining > 0:
            frame = self._queue.popleft()
            self._size -= len(frame)
            remaining -= len(frame)
            other._inbox.feed(frame)
        if not self._size:
            self._notify_drained()
        elif other is not None and other._accepting:
            self._schedule_move()

    def _finish(self, reason: str) -> None:
        if self._closed_reason is None:
            self._closed_reason = reason
            self._stall.stop()
            self._notify_drained()

    def _notify_drained(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

"""Two transports in one process: what one sends the other receives, with the same bounds as over pipes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from paddock.rpc.errors import RESOURCE_BUSY, PeerLost, RpcError
from paddock.rpc.inbox import Inbox
from paddock.rpc.transport import MAX_BACKLOG_BYTES, STALL_TIMEOUT_S, Receiver, StallDetector

MAX_PORTION_BYTES: Final = 64 * 1024
"""How many bytes are carried over before everybody else has a turn; what a pipe holds."""


def memory_pair(
    receiver_a: Receiver,
    receiver_b: Receiver,
    *,
    max_backlog: int = MAX_BACKLOG_BYTES,
    stalled_after: float = STALL_TIMEOUT_S,
) -> tuple[MemoryTransport, MemoryTransport]:
    """The two ends of one connection. `receiver_a` gets what is sent on the second, `receiver_b` what is on the first.

    Nothing is delivered before `start`, and never while `send` runs.
    """
    one = MemoryTransport(receiver_a, max_backlog, stalled_after)
    other = MemoryTransport(receiver_b, max_backlog, stalled_after)
    one.connect(other)
    other.connect(one)
    return one, other


class MemoryTransport:
    """One end of a connection in memory; see `Transport` for what each method promises. Made by `memory_pair`."""

    def __init__(self, receiver: Receiver, max_backlog: int, stalled_after: float) -> None:
        self._max_backlog = max_backlog
        self._other: MemoryTransport | None = None
        self._inbox = Inbox(receiver, self._fell_behind, self._caught_up)
        self._stall = StallDetector(stalled_after, lambda: self.backlog, receiver.stalled)
        self._waiting: deque[bytes] = deque()  # sent, and not yet taken by the other side
        self._size = 0
        self._listening = True
        self._keeping_up = False
        self._carrying = False  # a turn of the event loop is booked to carry what waits
        self._over: str | None = None  # why nothing can be sent any more
        self._half_open = False  # nothing is sent, and the other side still talks
        self._drained: asyncio.Future[None] | None = None

    def connect(self, other: MemoryTransport) -> None:
        self._other = other

    @property
    def backlog(self) -> int:
        return self._size

    def start(self) -> None:
        self._inbox.start()

    def send(self, frame: bytes) -> None:
        if self._over is not None:
            raise PeerLost(self._over)
        if self._size > self._max_backlog:
            raise RpcError(RESOURCE_BUSY, f"{self._size} bytes wait to be read, no more is accepted")
        self._waiting.append(frame)
        self._size += len(frame)
        self._stall.queued(len(frame))
        self._carry_later()

    def send_at_once(self, frame: bytes) -> bool:
        del frame
        return False

    async def drained(self) -> None:
        while self._size and self._over is None:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
        if self._over is not None:
            raise PeerLost(self._over)

    def finish(self) -> None:
        if self._over is not None:
            return
        self._finish("nothing more is sent")
        self._half_open = True
        if self._other is not None:
            asyncio.get_running_loop().call_soon(self._fall_silent, self._other)

    def close(self) -> None:
        self._inbox.stop()
        if self._over is not None and not self._half_open:
            return
        self._half_open = False
        self._finish("the connection was closed")
        if self._other is not None:
            # Not at once: the other side may be the one that is talking right now.
            asyncio.get_running_loop().call_soon(self._leave, self._other)

    async def wait_closed(self) -> None:
        """Nothing to wait for: memory gives itself back."""

    def stop_listening(self) -> None:
        """Take nothing more of what the other side sends, as a process does that hangs."""
        self._listening = False

    def listen(self) -> None:
        """Take it again."""
        self._listening = True
        self._peer_carries_on()

    def _fell_behind(self) -> None:
        self._keeping_up = False

    def _caught_up(self) -> None:
        self._keeping_up = True
        self._peer_carries_on()

    def _peer_carries_on(self) -> None:
        if self._other is not None:
            self._other._carry_later()

    @property
    def _takes(self) -> bool:
        return self._listening and self._keeping_up

    def _leave(self, other: MemoryTransport) -> None:
        other._finish("the other side closed the connection")
        self._fall_silent(other)

    def _fall_silent(self, other: MemoryTransport) -> None:
        # Like a pipe: what was sent before still arrives.
        while self._waiting:
            other._inbox.feed(self._waiting.popleft())
        self._size = 0
        other._inbox.end("the other side closed the connection")

    def _carry_later(self) -> None:
        if not self._carrying and self._waiting:
            self._carrying = True
            asyncio.get_running_loop().call_soon(self._carry)

    def _carry(self) -> None:
        self._carrying = False
        other = self._other
        left = MAX_PORTION_BYTES
        while other is not None and other._takes and self._waiting and left > 0:
            frame = self._waiting.popleft()
            self._size -= len(frame)
            left -= len(frame)
            other._inbox.feed(frame)
        if not self._size:
            self._tell_drained()
        elif other is not None and other._takes:
            self._carry_later()

    def _finish(self, reason: str) -> None:
        if self._over is None:
            self._over = reason
            self._stall.stop()
            self._tell_drained()

    def _tell_drained(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

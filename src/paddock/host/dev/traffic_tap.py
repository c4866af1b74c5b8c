"""Taps the traffic between the host and a plugin, frame by frame, without changing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paddock.rpc.pipe_transport import open_pipe_transport
from paddock.rpc.transport import Receiver, Transport
from paddock.runtime.endpoint import OpenTransport


class TrafficTap(Protocol):
    """Receives the traffic of one process. Called from the event loop; must be quick and must not raise."""

    def sent(self, frame: bytes) -> None:
        """Called with each frame that the host wrote to the process's standard input."""
        ...

    def received(self, frame: bytes) -> None:
        """Called with each frame that the process wrote to its standard output."""
        ...


def tap_transport(new_tap: Callable[[], TrafficTap]) -> OpenTransport:
    """Open transports with a tap, each with one of its own: message ids are unique only within one connection."""

    async def open_tapped(read_fd: int, write_fd: int, receiver: Receiver) -> Transport:
        tap = new_tap()
        return _TappedTransport(await open_pipe_transport(read_fd, write_fd, _TappedReceiver(receiver, tap)), tap)

    return open_tapped


class _TappedReceiver:
    def __init__(self, receiver: Receiver, tap: TrafficTap) -> None:
        self._receiver = receiver
        self._tap = tap

    def frame_received(self, frame: bytes) -> None:
        self._tap.received(frame)
        self._receiver.frame_received(frame)

    def violated(self, kind: str, detail: str) -> None:
        self._receiver.violated(kind, detail)

    def stalled(self) -> None:
        self._receiver.stalled()

    def lost(self, reason: str) -> None:
        self._receiver.lost(reason)


class _TappedTransport:
    def __init__(self, transport: Transport, tap: TrafficTap) -> None:
        self._transport = transport
        self._tap = tap

    @property
    def backlog(self) -> int:
        return self._transport.backlog

    def start(self) -> None:
        self._transport.start()

    def send(self, frame: bytes) -> None:
        self._transport.send(frame)
        self._tap.sent(frame)

    def send_at_once(self, frame: bytes) -> bool:
        del frame
        return False

    async def drained(self) -> None:
        await self._transport.drained()

    def finish(self) -> None:
        self._transport.finish()

    def close(self) -> None:
        self._transport.close()

    async def wait_closed(self) -> None:
        await self._transport.wait_closed()

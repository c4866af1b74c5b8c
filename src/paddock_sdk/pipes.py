"""The two pipes that a process was started with for big bytes, and the frames on them.

A frame is the number of a transfer and a length, four bytes each, the highest first, and then so many bytes; a length
of 0 ends the transfer. Threads may use them at once: one sends, one receives, and what comes for another waits for it.
"""

from __future__ import annotations

import os
from _thread import allocate_lock  # all that is needed of `threading`, which plugins would wait for when they start
from typing import TYPE_CHECKING

from paddock_sdk.faults import PluginFault

if TYPE_CHECKING:
    from typing import BinaryIO

VARIABLES = ("PADDOCK_ARTIFACTS_FDS", "KAGED_ARTIFACTS_FDS")
CHUNK_BYTES = 256 * 1024
_HEADER_BYTES = 8


class Pipes:
    """The plugin's ends."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self._sending = allocate_lock()
        self._receiving = allocate_lock()
        self._arrived: dict[int, list[bytes]] = {}
        self._ended: set[int] = set()
        for descriptor in (source, sink):
            os.set_inheritable(descriptor, False)  # a child has no use for them

    def send(self, stream: int, source: BinaryIO, size: int) -> None:
        """Send so many bytes of a file, and the end. What else is sent meanwhile goes between the frames.

        Where the host closed them this ends early: whoever commits is told why.

        Raises:
            PluginFault: the file has fewer.
        """
        left = size
        while left > 0:
            piece = source.read(min(CHUNK_BYTES, left))
            if not piece:
                break
            left -= len(piece)
            if not self._write(_frame_header(stream, len(piece)), piece):
                return
        self._write(_frame_header(stream, 0))
        if left:
            raise PluginFault("the file became shorter while it was sent")

    def receive(self, stream: int) -> bytes:
        """What comes under this number until its end.

        Raises:
            PluginFault: nothing more will come.
        """
        with self._receiving:
            while stream not in self._ended:
                self._read_frame()
            self._ended.discard(stream)
            return b"".join(self._arrived.pop(stream, []))

    def _read_frame(self) -> None:
        head = self._read_exactly(_HEADER_BYTES)
        stream, length = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
        if not length:
            self._ended.add(stream)
            return
        self._arrived.setdefault(stream, []).append(self._read_exactly(length))

    def _read_exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            piece = os.read(self.source, size - len(content))
            if not piece:
                raise PluginFault("the host closed the pipes for artifacts")
            if len(piece) == size:
                return piece
            content += piece
        return bytes(content)

    def _write(self, head: bytes, piece: bytes = b"") -> bool:
        """Send one frame; tells whether anybody reads."""
        with self._sending:
            try:
                sent = os.writev(self.sink, [head, piece])
                if sent < len(head) + len(piece):
                    rest = memoryview(head + piece)[sent:]
                    while rest:
                        rest = rest[os.write(self.sink, rest) :]
            except BrokenPipeError:
                return False
        return True


_open_once: list[Pipes | None] = []


def open_pipes() -> Pipes | None:
    """This process's pipes; None where it has none."""
    if not _open_once:
        told = next((os.environ[name] for name in VARIABLES if name in os.environ), None)
        numbers = [int(number) for number in told.split(",")] if told else []
        _open_once.append(Pipes(numbers[0], numbers[1]) if len(numbers) == 2 else None)
    return _open_once[0]


def close_pipes() -> None:
    """Have none from here on: in a fork, whose frames would mix with those of its parent."""
    pipes = open_pipes()
    _open_once[:] = [None]
    if pipes is not None:
        os.close(pipes.source)
        os.close(pipes.sink)


def _frame_header(stream: int, length: int) -> bytes:
    return stream.to_bytes(4, "big") + length.to_bytes(4, "big")

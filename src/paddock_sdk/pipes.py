"""The two pipes for artifact content, and the frames on them.

A frame is a transfer number and a length, four bytes each in big-endian order, followed by that many bytes. A length of
0 ends the transfer. Several threads may use the pipes: one sends, one receives, and frames of other transfers are kept
for them.
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
    """The plugin's ends of the pipes."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self._sending = allocate_lock()
        self._receiving = allocate_lock()
        self._arrived: dict[int, list[bytes]] = {}
        self._ended: set[int] = set()
        for descriptor in (source, sink):
            os.set_inheritable(descriptor, False)  # children do not need them

    def send(self, stream: int, source: BinaryIO, size: int) -> None:
        """Send `size` bytes of a file, and the end. Frames of other transfers may go in between.

        If the host closed the pipes, this returns early: the commit then reports why.

        Raises:
            PluginFault: the file has fewer bytes.
        """
        remaining = size
        while remaining > 0:
            chunk = source.read(min(CHUNK_BYTES, remaining))
            if not chunk:
                break
            remaining -= len(chunk)
            if not self._write(_frame_header(stream, len(chunk)), chunk):
                return
        self._write(_frame_header(stream, 0))
        if remaining:
            raise PluginFault("the file became shorter while it was sent")

    def receive(self, stream: int) -> bytes:
        """Return all bytes of a transfer.

        Raises:
            PluginFault: the host closed the pipes.
        """
        with self._receiving:
            while stream not in self._ended:
                self._read_frame()
            self._ended.discard(stream)
            return b"".join(self._arrived.pop(stream, []))

    def _read_frame(self) -> None:
        header = self._read_exactly(_HEADER_BYTES)
        stream, length = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
        if not length:
            self._ended.add(stream)
            return
        self._arrived.setdefault(stream, []).append(self._read_exactly(length))

    def _read_exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            part = os.read(self.source, size - len(content))
            if not part:
                raise PluginFault("the host closed the pipes for artifacts")
            if len(part) == size:
                return part
            content += part
        return bytes(content)

    def _write(self, header: bytes, chunk: bytes = b"") -> bool:
        """Send one frame; returns whether the other side still reads."""
        with self._sending:
            try:
                sent = os.writev(self.sink, [header, chunk])
                if sent < len(header) + len(chunk):
                    rest = memoryview(header + chunk)[sent:]
                    while rest:
                        rest = rest[os.write(self.sink, rest) :]
            except BrokenPipeError:
                return False
        return True


_open_once: list[Pipes | None] = []


def open_pipes() -> Pipes | None:
    """Return this process's pipes; None if it has none."""
    if not _open_once:
        descriptors = next((os.environ[name] for name in VARIABLES if name in os.environ), None)
        numbers = [int(number) for number in descriptors.split(",")] if descriptors else []
        _open_once.append(Pipes(numbers[0], numbers[1]) if len(numbers) == 2 else None)
    return _open_once[0]


def close_pipes() -> None:
    """Close the pipes: in a fork, whose frames would mix with those of its parent."""
    pipes = open_pipes()
    _open_once[:] = [None]
    if pipes is not None:
        os.close(pipes.source)
        os.close(pipes.sink)


def _frame_header(stream: int, length: int) -> bytes:
    return stream.to_bytes(4, "big") + length.to_bytes(4, "big")

"""How bytes of several transfers share one pipe: a head of eight bytes, then so many bytes of one of them. Pure.

stream   four bytes, the highest first: which transfer
length   four bytes: how many bytes follow; 0 ends the transfer
"""

from __future__ import annotations

import struct
from typing import NamedTuple

FRAME_HEADER = struct.Struct(">II")
MAX_FRAME_BYTES = 1 << 20


class FrameChunk(NamedTuple):
    """Some bytes of a transfer, at most one frame's; none at all is its end."""

    stream: int
    content: memoryview


class FramingError(Exception):
    """What came is no frame: nothing after it can be understood."""


class FrameParser:
    """Takes the pipe's bytes apart as they come. Keeps no content, only a head that has not come whole."""

    def __init__(self) -> None:
        self._head = b""
        self._stream = 0
        self._left = 0  # of the frame that has begun

    def feed(self, data: bytes) -> list[FrameChunk]:
        """The pieces in these bytes, which follow those of the last time.

        Raises:
            Unframed: a frame would be longer than any may be.
        """
        pieces: list[FrameChunk] = []
        rest = memoryview(data)
        while rest:
            if self._left:
                content, rest = rest[: self._left], rest[self._left :]
                self._left -= len(content)
                pieces.append(FrameChunk(self._stream, content))
                continue
            wanted = FRAME_HEADER.size - len(self._head)
            self._head += bytes(rest[:wanted])
            rest = rest[wanted:]
            if len(self._head) == FRAME_HEADER.size:
                self._stream, self._left = FRAME_HEADER.unpack(self._head)
                self._head = b""
                if self._left > MAX_FRAME_BYTES:
                    raise FramingError(f"a frame of {self._left} bytes; at most {MAX_FRAME_BYTES} are allowed")
                if not self._left:
                    pieces.append(FrameChunk(self._stream, memoryview(b"")))
        return pieces

"""How bytes of several transfers share one pipe: a head of eight bytes, then so many bytes of one of them. Pure.

stream   four bytes, the highest first: which transfer
length   four bytes: how many bytes follow; 0 ends the transfer
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEAD = struct.Struct(">II")
LARGEST_FRAME = 1 << 20


class Piece(NamedTuple):
    """Some bytes of a transfer, at most one frame's; none at all is its end."""

    stream: int
    content: memoryview


class Unframed(Exception):
    """What came is no frame: nothing after it can be understood."""


class Frames:
    """Takes the pipe's bytes apart as they come. Keeps no content, only a head that has not come whole."""

    def __init__(self) -> None:
        self._head = b""
        self._stream = 0
        self._left = 0  # of the frame that has begun

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces in these bytes, which follow those of the last time.

        Raises:
            Unframed: a frame would be longer than any may be.
        """
        pieces: list[Piece] = []
        rest = memoryview(data)
        while rest:
            if self._left:
                content, rest = rest[: self._left], rest[self._left :]
                self._left -= len(content)
                pieces.append(Piece(self._stream, content))
                continue
            wanted = HEAD.size - len(self._head)
            self._head += bytes(rest[:wanted])
            rest = rest[wanted:]
            if len(self._head) == HEAD.size:
                self._stream, self._left = HEAD.unpack(self._head)
                self._head = b""
                if self._left > LARGEST_FRAME:
                    raise Unframed(f"a frame of {self._left} bytes; at most {LARGEST_FRAME} are allowed")
                if not self._left:
                    pieces.append(Piece(self._stream, memoryview(b"")))
        return pieces

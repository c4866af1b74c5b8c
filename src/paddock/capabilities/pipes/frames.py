"""The framing that multiplexes several transfers on one pipe: an eight-byte header, then that many bytes. Pure.

stream   four bytes, big-endian: which transfer
length   four bytes: how many bytes follow; 0 ends the transfer
"""

from __future__ import annotations

import struct
from typing import NamedTuple

FRAME_HEADER = struct.Struct(">II")
MAX_FRAME_BYTES = 1 << 20


class FrameChunk(NamedTuple):
    """Bytes of a transfer, at most one frame's; empty at its end."""

    stream: int
    content: memoryview


class FramingError(Exception):
    """The bytes are not a frame, so nothing after them can be parsed."""


class FrameParser:
    """Splits a pipe's bytes into frames as they arrive. Buffers no content, only an incomplete header."""

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._remaining = 0  # bytes of the current frame

    def feed(self, data: bytes) -> list[FrameChunk]:
        """Return the chunks in these bytes, which follow those of the previous call.

        Raises:
            FramingError: a frame exceeds the maximum length.
        """
        chunks: list[FrameChunk] = []
        rest = memoryview(data)
        while rest:
            if self._remaining:
                content, rest = rest[: self._remaining], rest[self._remaining :]
                self._remaining -= len(content)
                chunks.append(FrameChunk(self._stream, content))
                continue
            missing = FRAME_HEADER.size - len(self._header)
            self._header += bytes(rest[:missing])
            rest = rest[missing:]
            if len(self._header) == FRAME_HEADER.size:
                self._stream, self._remaining = FRAME_HEADER.unpack(self._header)
                self._header = b""
                if self._remaining > MAX_FRAME_BYTES:
                    raise FramingError(f"a frame of {self._remaining} bytes; at most {MAX_FRAME_BYTES} are allowed")
                if not self._remaining:
                    chunks.append(FrameChunk(self._stream, memoryview(b"")))
        return chunks

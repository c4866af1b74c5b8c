"""Pictures of pages in a third of the bytes: a page has few colours, so 256 of them are enough.

Only what browsers write is read: eight bits for each of three or four channels, not interlaced.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_COLOURS = 256
_CHANNELS = {2: 3, 6: 4}  # by the kind of colour in the head


@dataclass(frozen=True, slots=True)
class Picture:
    """So many pixels wide and high, and the red, green and blue of each."""

    width: int
    height: int
    pixels: tuple[bytes, ...]


def size(png: bytes) -> tuple[int, int]:
    """How wide and how high a picture is."""
    return struct.unpack(">II", png[16:24])


def read(png: bytes) -> Picture:
    """A picture as a browser wrote it.

    Raises:
        ValueError: it is no such picture.
    """
    chunks = list(_chunks(png))
    width, height, bits, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if bits != 8 or kind not in _CHANNELS or interlaced:
        raise ValueError("not a picture as browsers write them")
    channels = _CHANNELS[kind]
    lines = zlib.decompress(b"".join(content for name, content in chunks if name == b"IDAT"))
    length, before, pixels = width * channels, bytearray(width * channels), list[bytes]()
    for at in range(0, height * (length + 1), length + 1):
        before = _unfiltered(lines[at], bytearray(lines[at + 1 : at + 1 + length]), before, channels)
        pixels += [bytes(before[one : one + 3]) for one in range(0, length, channels)]
    return Picture(width, height, tuple(pixels))


def written(picture: Picture) -> bytes:
    """The picture in at most 256 colours; each other colour becomes the nearest of the most frequent ones."""
    counted = Counter(picture.pixels)
    palette = [colour for colour, _ in counted.most_common(MOST_COLOURS)]
    place = {colour: number for number, colour in enumerate(palette)}
    place |= {colour: _nearest(colour, palette) for colour in counted if colour not in place}
    dots = bytes(place[one] for one in picture.pixels)
    width = picture.width
    lines = b"".join(b"\0" + dots[at : at + width] for at in range(0, len(dots), width))
    head = struct.pack(">IIBBBBB", width, picture.height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, content) for kind, content in parts)


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    def distance(number: int) -> int:
        return sum((ours - theirs) ** 2 for ours, theirs in zip(colour, palette[number], strict=True))

    return min(range(len(palette)), key=distance)


def _unfiltered(kind: int, line: bytearray, above: bytearray, channels: int) -> bytearray:
    """A line as it was before it was noted as differences from its neighbours."""
    if kind == 0:
        return line
    for at, value in enumerate(line):
        left = line[at - channels] if at >= channels else 0
        up = above[at]
        match kind:
            case 1:
                guess = left
            case 2:
                guess = up
            case 3:
                guess = (left + up) // 2
            case _:
                guess = _paeth(left, up, above[at - channels] if at >= channels else 0)
        line[at] = (value + guess) & 255
    return line


def _paeth(left: int, up: int, corner: int) -> int:
    slope = left + up - corner
    return min((left, up, corner), key=lambda one: abs(slope - one))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

"""How much structure a JSON text has and how deep it goes, seen from its bytes: cheaper than from its values. Pure."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

_NOT_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b"{}[],:")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"{}[]")
_STEPS: Final = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")  # one in, and one out as a signed byte


class StructureCounter:
    """Counts `{}[],:` outside strings, over any number of pieces of one text.

    For text that is no JSON the count means nothing, and does no harm: the parser refuses it where it goes wrong.
    """

    __slots__ = ("_escaped", "_quoted", "_total")

    def __init__(self) -> None:
        self._quoted = False  # the last piece ended inside a string
        self._escaped = False  # and on a backslash
        self._total = 0

    def count(self, piece: bytes) -> int:
        """How many there were so far, this piece included."""
        if self._escaped and piece:
            self._escaped = False
            if piece[0] in b'"\\':  # it belongs to the backslash before it
                piece = piece[1:]
        # Pairs of backslashes first: what is left of a run of them then escapes the byte behind it.
        piece = piece.replace(b"\\\\", b"")
        if piece.endswith(b"\\"):
            self._escaped = True
        runs = piece.replace(b'\\"', b"").split(b'"')
        outside = runs[1::2] if self._quoted else runs[::2]
        self._quoted ^= len(runs) % 2 == 0
        self._total += len(b"".join(outside).translate(None, _NOT_STRUCTURE))
        return self._total


def nested_deeper(text: bytes, depth: int) -> bool:
    """Whether the containers of a valid JSON text are nested more than `depth` deep.

    Looks at the bytes alone: to walk a dense value takes longer than to parse it.
    """
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    steps = memoryview(outside.translate(_STEPS, _NOT_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0) > depth

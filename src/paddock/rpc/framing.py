"""Bytes into lines, with bounds that hold while a line is still arriving. Pure.

A line may have 4 MiB. One that is long and dense (`[[],[],[],…`) is short on the wire and slow to parse, and nothing
can be done meanwhile: the parser holds the interpreter, in whatever thread. So the structure of long lines is counted,
chunk by chunk as they arrive, and a line with too much of it is refused before it is parsed.
"""

from __future__ import annotations

from typing import Final

from paddock.rpc.message import MAX_FRAME

COUNTED_FROM: Final = 128 * 1024
"""Lines up to this size are parsed uncounted; the worst of them takes about as long as the worst counted one."""

MAX_STRUCTURE: Final = 50_000
"""How many of `{}[],:` a longer line may have outside its strings."""

_NOT_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b"{}[],:")


class Violation(Exception):
    """A line passed a bound. The connection cannot go on: where the next line starts is not looked for.

    `before` holds the lines that were complete before it in the same chunk.
    """

    kind = "violation"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.before: list[bytes] = []


class Oversize(Violation):
    """A line is longer than the limit."""

    kind = "oversize_message"


class TooDense(Violation):
    """A long line has more structure than can be parsed in good time."""

    kind = "too_dense"


class LineSplitter:
    """Gives the lines of a stream, whatever pieces it arrives in. Empty lines are skipped; `\\r\\n` ends a line too."""

    __slots__ = ("_counter", "_limit", "_parts", "_size", "_violation")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of the line that is not complete
        self._size = 0
        self._counter: StructureCounter | None = None
        self._violation: Violation | None = None

    @property
    def held(self) -> int:
        """How many bytes of an incomplete line are kept."""
        return self._size

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes.

        Raises:
            Oversize: a line has passed the limit, complete or not. Raised again for whatever comes later.
            TooDense: likewise, for its structure.
        """
        if self._violation is not None:
            raise self._violation
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._parts or len(chunk) > COUNTED_FROM or len(chunk) > self._limit:
            lines = self._checked(lines, rest)
        elif rest:
            self._parts.append(rest)
            self._size = len(rest)
        if b"\r" in chunk or b"" in lines:
            return [stripped for line in lines if (stripped := line.rstrip(b"\r"))]
        return lines

    def _checked(self, ends: list[bytes], rest: bytes) -> list[bytes]:
        """The same for lines that began earlier or may be long."""
        lines: list[bytes] = []
        try:
            for end in ends:
                self._hold(end)
                lines.append(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
                self._parts.clear()
                self._size = 0
                self._counter = None
            if rest:
                self._hold(rest)
        except Violation as violation:
            violation.before = [line for line in lines if line.rstrip(b"\r")]
            self._violation = violation
            self._parts.clear()
            raise
        return lines

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            raise Oversize(f"a line has more than {self._limit} bytes")
        if self._size > COUNTED_FROM:
            if self._counter is None:
                self._counter = StructureCounter()
                part = b"".join(self._parts)
            if self._counter.count(part) > MAX_STRUCTURE:
                raise TooDense(f"a line of more than {COUNTED_FROM} bytes has more than {MAX_STRUCTURE} parts")


class StructureCounter:
    """Counts `{}[],:` outside strings, over any number of pieces of one line."""

    __slots__ = ("_escaped", "_quoted", "_total")

    def __init__(self) -> None:
        self._quoted = False  # the last piece ended inside a string
        self._escaped = False  # and on a backslash
        self._total = 0

    def count(self, piece: bytes) -> int:
        """How many there were so far, this piece included."""
        if self._escaped:
            # The first byte belongs to the backslash before it; a byte that means nothing keeps the rest in place.
            piece = b"x" + piece[1:] if piece else piece
            self._escaped = not piece
        # Pairs of backslashes first: what is left of a run of them then escapes the byte behind it.
        piece = piece.replace(b"\\\\", b"")
        if piece.endswith(b"\\"):
            self._escaped = True
        runs = piece.replace(b'\\"', b"").split(b'"')
        outside = runs[1::2] if self._quoted else runs[::2]
        self._quoted ^= len(runs) % 2 == 0
        self._total += len(b"".join(outside).translate(None, _NOT_STRUCTURE))
        return self._total

"""Splits a byte stream into lines, with limits that apply while a line is still arriving. Pure.

A line may have 4 MiB. One that is long and dense (`[[],[],[],…`) is short on the wire and slow to parse, and nothing
else runs meanwhile: the parser holds the GIL, in whatever thread. So the structure of long lines is counted,
chunk by chunk as they arrive, and a line with too much of it is refused before it is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paddock.rpc.message import MAX_FRAME_BYTES, StructureCounter

STRUCTURE_CHECKED_FROM_BYTES: Final = 64 * 1024
"""Lines up to this size are not counted: they cannot hold much more than the longest may."""

MAX_STRUCTURE_TOKENS: Final = 150_000
"""How many of `{}[],:` a longer line may have outside its strings. Parsing the worst of them takes some 30 ms."""


class FramingViolation(Exception):
    """A line exceeded a limit. The connection cannot go on: we do not search for the start of the next line.

    `before` holds the lines that were complete before it in the same chunk.
    """

    kind = "violation"

    def __init__(self, detail: str, before: Sequence[bytes] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.before = list(before)


class LineTooLong(FramingViolation):
    """A line is longer than the limit."""

    kind = "oversize_message"


class LineTooDense(FramingViolation):
    """A long line has more structure than can be parsed in good time."""

    kind = "too_dense"


class LineSplitter:
    r"""Splits a stream into lines, whatever chunks it arrives in. Empty lines are skipped; `\\r\\n` ends a line too."""

    __slots__ = ("_counted_from", "_counter", "_held", "_limit", "_max_structure", "_violation")

    def __init__(
        self,
        limit: int = MAX_FRAME_BYTES,
        *,
        counted_from: int = STRUCTURE_CHECKED_FROM_BYTES,
        max_structure: int = MAX_STRUCTURE_TOKENS,
    ) -> None:
        self._limit = limit
        self._counted_from = min(counted_from, limit)
        self._max_structure = max_structure
        self._held = bytearray()  # the incomplete line
        self._counter: StructureCounter | None = None
        self._violation: FramingViolation | None = None

    @property
    def held(self) -> int:
        """How many bytes of an incomplete line are buffered."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes.

        Raises:
            LineTooLong: A line has passed the limit, complete or not. Raised again for whatever comes later.
            LineTooDense: Likewise, for its structure.
        """
        if self._violation is not None:
            raise type(self._violation)(self._violation.detail)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._held or len(chunk) > self._counted_from:
            return _strip_line_ends(self._feed_checked(lines, rest))
        if rest:
            self._held += rest
        return _strip_line_ends(lines) if b"\r" in chunk or b"" in lines else lines

    def _feed_checked(self, ends: list[bytes], rest: bytes) -> list[bytes]:
        """Split lines that began earlier or may be long."""
        lines: list[bytes] = []
        try:
            for end in ends:
                self._hold(end)
                lines.append(bytes(self._held))
                self._held = bytearray()  # not clear(): the memory of a long line is freed
                self._counter = None
            if rest:
                self._hold(rest)
        except FramingViolation as violation:
            self._violation = violation
            self._held = bytearray()
            raise type(violation)(violation.detail, _strip_line_ends(lines)) from None
        return lines

    def _hold(self, part: bytes) -> None:
        self._held += part
        size = len(self._held)
        if size > self._limit:
            raise LineTooLong(f"a line has more than {self._limit} bytes")
        if size > self._counted_from:
            if self._counter is None:
                self._counter = StructureCounter()
                part = bytes(self._held)
            if self._counter.count(part) > self._max_structure:
                limit_text = f"{self._max_structure} brackets, commas and colons"
                raise LineTooDense(f"a line of more than {self._counted_from} bytes has more than {limit_text}")


def _strip_line_ends(lines: list[bytes]) -> list[bytes]:
    r"""Strip the `\\r` of `\\r\\n`, and drop empty lines."""
    return [bare for line in lines if (bare := line.rstrip(b"\r"))]

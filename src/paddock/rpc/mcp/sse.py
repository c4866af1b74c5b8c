"""A parser for server-sent events, with a limit that applies while an event is still arriving. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from paddock.rpc.message import MAX_FRAME_BYTES

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DATA_FIELD_BYTES: Final = len(b"data: ")


class SseEventTooLarge(Exception):
    """An event has more bytes than it may."""


class SseEvent(Struct, frozen=True):
    """One event."""

    kind: str
    data: bytes
    id: str | None = None  # a position in the stream to resume from


class SseParser:
    """Parses a stream into events, whatever chunks it arrives in. Comments are skipped."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self.retry: float | None = None
        """Seconds to wait before reconnecting, where the server said."""
        self._limit = limit
        self._partial: list[bytes] = []  # the incomplete line
        self._partial_size = 0
        self._after_cr = False
        self._first = True
        self._kind = ""
        self._data: bytearray | None = None  # joined as they come: a line counts even if it is empty
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes.

        Raises:
            SseEventTooLarge: One has passed the limit, complete or not.
        """
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # the second half of a CRLF
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        if lines:
            lines[0] = b"".join((*self._partial, lines[0]))
            self._partial, self._partial_size = [], 0
        self._partial.append(rest)
        self._partial_size += len(rest)
        events = [event for line in lines if (event := self._parse_line(line)) is not None]
        if self._partial_size + len(self._data or b"") > self._limit + _DATA_FIELD_BYTES:
            raise SseEventTooLarge(f"an event has more than {self._limit} bytes")
        return events

    def _parse_line(self, line: bytes) -> SseEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._finish_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                # Lines of one event are joined by newlines, which JSON takes for spaces.
                if self._data is None:
                    self._data = bytearray(value)
                else:
                    self._data += b" " + value
                if len(self._data) > self._limit:
                    raise SseEventTooLarge(f"an event has more than {self._limit} bytes")
            case b"event":
                self._kind = value[:64].decode("utf-8", "replace")
            case b"id":
                text = value.decode("ascii", "replace")
                if len(text) <= 1024 and text.isascii() and text.isprintable():  # it is sent back in a header
                    self._id = text
            case b"retry":
                if value.isdigit() and len(value) < 9:
                    self.retry = int(value) / 1000
            case _:
                pass
        return None

    def _finish_event(self) -> SseEvent | None:
        event = SseEvent(self._kind or "message", bytes(self._data), self._id) if self._data is not None else None
        self._kind, self._data = "", None
        return event

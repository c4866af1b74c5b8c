"""JSON-RPC messages as lines: UTF-8, one object a line, at most 4 MiB."""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO

from paddock_sdk.faults import INVALID_REQUEST, PARSE_ERROR, HostGone, PluginFault

LIMIT = 4 * 1024 * 1024


class Lines:
    """A stream to read messages from, and a file descriptor to write them to."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source = source
        self._sink = sink

    def read(self) -> Any:
        """The next message, decoded and not judged further.

        Raises:
            PluginFault: the line is no JSON or too long; the next read starts at the next line.
            HostGone: there are no more lines.
        """
        line = self._source.readline(LIMIT + 1)
        if not line:
            raise HostGone
        if len(line) > LIMIT and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = self._source.readline(LIMIT)
            raise PluginFault(f"a message may have at most {LIMIT} bytes", code=INVALID_REQUEST)
        try:
            return json.loads(line.decode())
        except (ValueError, RecursionError):
            raise PluginFault("the line is not JSON", code=PARSE_ERROR) from None

    def write(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            TypeError, ValueError: it cannot be written as JSON, or is too long; nothing was sent.
            HostGone: nobody reads any more.
        """
        # ASCII only: half a surrogate pair in a string could not be sent as UTF-8.
        line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
        if len(line) > LIMIT:
            raise ValueError(f"the message has {len(line)} bytes; {LIMIT} are allowed")
        rest = memoryview(line + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._sink, rest) :]
        except BrokenPipeError:
            raise HostGone from None


def take_stdio() -> Lines:
    """Stdin and stdout for the protocol alone: a stray print lands in the log, and a child cannot read our lines."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Lines(os.fdopen(source, "rb"), sink)

"""JSON-RPC messages as lines: UTF-8, one object per line, at most 4 MiB.

Every call passes here twice, so encoder and decoder are created once, and the envelope of a response is written as
text.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from paddock_sdk.faults import INVALID_REQUEST, PARSE_ERROR, HostGone, NoEffect, PluginFault
from paddock_sdk.jsonable import to_jsonable

if TYPE_CHECKING:
    import select

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
READ_CHUNK_BYTES = 64 * 1024  # the capacity of a pipe

_decode = json.JSONDecoder().raw_decode
# ASCII only: a lone surrogate in a string could not be sent as UTF-8.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=to_jsonable).encode


class MessageTooLong(ValueError):
    """A message has more bytes than allowed."""


class Lines:
    """Reads messages from one file descriptor and writes them to another.

    Args:
        source: The descriptor to read from.
        sink: The descriptor to write to.
        max_line_bytes: The limit for lines that are read, if it differs from the protocol's.
    """

    def __init__(self, source: int, sink: int, *, max_line_bytes: int | None = None) -> None:
        self.source = source
        self.sink = sink
        self._partial: list[bytes] = []  # the parts of an incomplete line
        self._partial_bytes = 0  # its size; beyond the limit it is counted but not kept
        self._max_line_bytes = max_line_bytes or MAX_MESSAGE_BYTES
        self._poll: select.poll | None = None

    def read(self) -> list[Any]:
        """Wait for bytes, and return the messages that they completed, decoded but not validated.

        A line that is not JSON or is too long yields a PluginFault in its place: the other lines are not affected.

        Raises:
            HostGone: the input has ended.
        """
        chunk = os.read(self.source, READ_CHUNK_BYTES)
        if not chunk:
            if not self._partial_bytes:
                raise HostGone
            chunk = b"\n"  # the last line may lack its line end
        *lines, rest = chunk.split(b"\n")
        messages = [self._finish(lines.pop(0))] if lines and self._partial_bytes else []
        messages += [_decode_line(line) for line in lines]
        if rest:
            self._keep(rest)
        return messages

    def arrived(self) -> bool:
        """Whether `read` would return without waiting.

        Raises:
            HostGone: the other side no longer reads.
        """
        import select  # late: most plugins never poll

        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.source, select.POLLIN)
            self._poll.register(self.sink, 0)  # errors are reported without a requested event
        events = dict(self._poll.poll(0))
        if events.get(self.sink, 0) & select.POLLERR:
            raise HostGone
        return self.source in events

    def write(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON; nothing was sent.
            MessageTooLong: it has too many bytes; nothing was sent.
            HostGone: the other side no longer reads.
        """
        self._send(_encode(message))

    def answer(self, request_id: int | str, result: Any) -> None:
        """Send a result. Raises like `write`."""
        number = request_id if type(request_id) is int else _encode(request_id)
        self._send(f'{{"jsonrpc":"2.0","id":{number},"result":{_encode(result)}}}')

    def fail(self, request_id: int | str | None, fault: PluginFault) -> None:
        """Send an error; without its data if that cannot be sent."""
        try:
            self.write({"jsonrpc": "2.0", "id": request_id, "error": fault.to_error()})
        except (TypeError, ValueError, RecursionError):
            kind = NoEffect if fault.no_effect else PluginFault
            bare = kind(fault.message[:1000], code=fault.error_code)
            self.write({"jsonrpc": "2.0", "id": request_id, "error": bare.to_error()})

    def _send(self, text: str) -> None:
        if len(text) > MAX_MESSAGE_BYTES:
            raise MessageTooLong(f"the message has {len(text)} bytes; at most {MAX_MESSAGE_BYTES} (4 MiB) are allowed")
        line = (text + "\n").encode()
        try:
            sent = os.write(self.sink, line)
            while sent < len(line):
                sent += os.write(self.sink, memoryview(line)[sent:])
        except BrokenPipeError:
            raise HostGone from None

    def _keep(self, part: bytes) -> None:
        self._partial_bytes += len(part)
        if self._partial_bytes > self._max_line_bytes:
            self._partial.clear()
        else:
            self._partial.append(part)

    def _finish(self, part: bytes) -> Any:
        self._keep(part)
        line, too_long = b"".join(self._partial), self._partial_bytes > self._max_line_bytes
        self._partial.clear()
        self._partial_bytes = 0
        if too_long:
            return PluginFault(f"a message may have at most {self._max_line_bytes} bytes", code=INVALID_REQUEST)
        return _decode_line(line)


def _decode_line(line: bytes) -> Any:
    try:
        text = line.strip(b" \t\r").decode()
        message, end = _decode(text)
        if end == len(text):
            return message
    except (ValueError, RecursionError):
        pass
    return PluginFault("the line is not JSON", code=PARSE_ERROR)


def encode_line(message: dict[str, Any]) -> bytes:
    """Return a message as a line."""
    return (_encode(message) + "\n").encode()


def take_stdio() -> Lines:
    """Reserve stdin and stdout for the protocol: stray prints go to the log, and children cannot read our lines."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    # Line-buffered, so that a printed line is in the log even if the process is killed right after it.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True, errors="backslashreplace")
    return Lines(source, sink)

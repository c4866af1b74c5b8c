"""JSON-RPC messages as lines: UTF-8, one object a line, at most 4 MiB.

Every call of a plugin passes here twice, so the coders are made once and an answer's envelope is written as text.
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
READ_CHUNK_BYTES = 64 * 1024  # what a pipe holds

_decode = json.JSONDecoder().raw_decode
# ASCII only: half a surrogate pair in a string could not be sent as UTF-8.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=to_jsonable).encode


class MessageTooLong(ValueError):
    """A message has more bytes than one may have."""


class Lines:
    """A file descriptor to read messages from, and one to write them to.

    Args:
        source: Read from.
        sink: Written to.
        longest: How many bytes a line may have that is read, where that is not the limit of the protocol.
    """

    def __init__(self, source: int, sink: int, *, longest: int | None = None) -> None:
        self.source = source
        self.sink = sink
        self._begun: list[bytes] = []  # the pieces of a line that has not ended yet
        self._length = 0  # of that line; beyond the limit it is counted but not kept
        self._longest = longest or MAX_MESSAGE_BYTES
        self._poll: select.poll | None = None

    def read(self) -> list[Any]:
        """Wait for bytes; gives the messages that they completed, decoded and not judged further.

        A PluginFault stands in the place of a line that is no JSON or too long: the lines beside it are sound.

        Raises:
            HostGone: there are no more lines.
        """
        chunk = os.read(self.source, READ_CHUNK_BYTES)
        if not chunk:
            if not self._length:
                raise HostGone
            chunk = b"\n"  # the very last line may lack its end
        *ended, begun = chunk.split(b"\n")
        messages = [self._finish(ended.pop(0))] if ended and self._length else []
        messages += [_decode_line(line) for line in ended]
        if begun:
            self._keep(begun)
        return messages

    def arrived(self) -> bool:
        """Whether a read would not have to wait.

        Raises:
            HostGone: nobody reads any more.
        """
        import select  # late: most plugins never look while they work

        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.source, select.POLLIN)
            self._poll.register(self.sink, 0)  # its errors are told without asking
        seen = dict(self._poll.poll(0))
        if seen.get(self.sink, 0) & select.POLLERR:
            raise HostGone
        return self.source in seen

    def write(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON; nothing was sent.
            TooLong: it has too many bytes; nothing was sent.
            HostGone: nobody reads any more.
        """
        self._send(_encode(message))

    def answer(self, request_id: int | str, result: Any) -> None:
        """Send a result. Raises as `write` does."""
        number = request_id if type(request_id) is int else _encode(request_id)
        self._send(f'{{"jsonrpc":"2.0","id":{number},"result":{_encode(result)}}}')

    def fail(self, request_id: int | str | None, fault: PluginFault) -> None:
        """Send an error; without its data where that cannot be sent."""
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

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._longest:
            self._begun.clear()
        else:
            self._begun.append(piece)

    def _finish(self, piece: bytes) -> Any:
        self._keep(piece)
        line, too_long = b"".join(self._begun), self._length > self._longest
        self._begun.clear()
        self._length = 0
        if too_long:
            return PluginFault(f"a message may have at most {self._longest} bytes", code=INVALID_REQUEST)
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
    """A message as it stands on a wire."""
    return (_encode(message) + "\n").encode()


def take_stdio() -> Lines:
    """Stdin and stdout for the protocol alone: a stray print lands in the log, and a child cannot read our lines."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # What is printed is in the log when its line ends, also if the process is killed right after it.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True, errors="backslashreplace")
    return Lines(source, sink)

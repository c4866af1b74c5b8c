"""Just enough HTTP to talk with our own daemon over its socket.

The standard library's client brings TLS and mail parsing along and takes longer to import than most commands run.
One request a connection; the answer has a length or comes in chunks, as our server sends it.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from types import TracebackType

from paddock.web.daemon_address import socket_address

CONNECT_TIMEOUT_S = 2.0  # seconds; a local socket takes a connection at once or not at all
_MAX_LINE_BYTES = 65_536


_CONNECT_RETRY_S = 0.02  # seconds before knocking again


class MalformedHttpResponse(Exception):
    """Whatever listens there does not speak as our daemon does."""


class SocketNotAccepting(Exception):
    """Somebody listens there and takes nobody in."""


def connect(path: Path) -> socket.socket:
    """A connection to the socket at this path.

    Raises:
        NoAnswer: so many wait there already that nobody else was let in for a while.
        OSError: nobody listens there, or we must not ask.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(CONNECT_TIMEOUT_S)
        with socket_address(path) as address:
            _connect_with_retry(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _connect_with_retry(made: socket.socket, address: str) -> None:
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            return made.connect(address)
        except (BlockingIOError, TimeoutError):
            if time.monotonic() > deadline:
                raise SocketNotAccepting from None
        time.sleep(_CONNECT_RETRY_S)  # there is nothing to wait on: the kernel queues no more


class LocalHttpExchange:
    """One request and its answer, all of it within so many seconds. Leaving the block hangs up, which is noticed."""

    def __init__(self, path: Path, seconds: float | None) -> None:
        self._socket = connect(path)
        self._deadline = time.monotonic() + seconds if seconds is not None else None
        self._answer: BufferedReader = self._socket.makefile("rb")
        self._left: int | None = None  # of the present chunk, or of the whole body
        self._chunked = False
        self.status = 0
        self.where = ""  # the address of what the answer is about

    def __enter__(self) -> LocalHttpExchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answer.close()
        self._socket.close()

    def send_request(
        self, method: str, target: str, body: bytes | None, accept: str, acting_as: str | None = None
    ) -> None:
        """Send the request and read the answer up to its body; `acting_as` is in whose name, and has no line ends.

        Raises:
            TimeoutError: the seconds are over.
            OSError, BadAnswer: no answer came, or none that can be understood.
        """
        self._apply_deadline()
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n"
        if acting_as is not None:
            head += f"Paddock-As: {acting_as}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        # Whoever refuses a request early says why, and hangs up while we still speak.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(head.encode("ascii") + b"\r\n" + (body or b""))
        words = self._read_line().split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise MalformedHttpResponse("not an HTTP answer")
        self.status = int(words[1])
        while line := self._read_line().strip():
            name, _, value = line.partition(b":")
            match name.lower():
                case b"content-length":
                    self._left = int(value)
                case b"transfer-encoding":
                    self._chunked = b"chunked" in value.lower()
                case b"content-location":
                    self.where = value.strip().decode("ascii", "replace")
                case _:
                    pass

    def read_body(self) -> bytes:
        """The whole body."""
        if not self._chunked:
            return self._answer.read(self._left if self._left is not None else -1)
        return b"".join(iter(self.read_chunk, b""))

    def read_chunk(self) -> bytes:
        """The next piece of a body that comes in pieces; nothing at its end."""
        self._apply_deadline()
        try:
            size = int(self._read_line().split(b";")[0], 16)
        except ValueError:
            raise MalformedHttpResponse("a chunk without a size") from None
        piece = self._answer.read(size)
        if len(piece) < size:
            raise MalformedHttpResponse("the answer was cut short")
        self._read_line()  # each piece is followed by a line end
        return piece

    def _apply_deadline(self) -> None:
        if self._deadline is None:
            self._socket.settimeout(None)
            return
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _read_line(self) -> bytes:
        line = self._answer.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise MalformedHttpResponse("the answer was cut short")
        return line

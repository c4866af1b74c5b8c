"""A minimal HTTP client for the daemon's local socket.

The standard library's client pulls in TLS and mail parsing and takes longer to import than most commands run.
One request per connection; the response has a content length or is chunked, as the daemon sends it.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from types import TracebackType

from paddock.web.daemon_address import socket_address

CONNECT_TIMEOUT_S = 2.0  # a local socket accepts at once or not at all
_CONNECT_RETRY_S = 0.02
_MAX_LINE_BYTES = 65_536


class MalformedHttpResponse(Exception):
    """The listener's response is not HTTP as the daemon sends it."""


class SocketNotAccepting(Exception):
    """A process listens on the socket but does not accept connections."""


def connect(path: Path) -> socket.socket:
    """Connect to the socket at this path.

    Raises:
        SocketNotAccepting: the backlog was full until the timeout.
        OSError: nothing listens there, or access is denied.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_TIMEOUT_S)
        with socket_address(path) as address:
            _connect_with_retry(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_with_retry(connection: socket.socket, address: str) -> None:
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            return connection.connect(address)
        except (BlockingIOError, TimeoutError):
            if time.monotonic() > deadline:
                raise SocketNotAccepting from None
        time.sleep(_CONNECT_RETRY_S)  # poll: the kernel's backlog is full, and there is nothing to wait on


class LocalHttpExchange:
    """One request and its response, all within a number of seconds.

    Leaving the block closes the connection, which the daemon notices.
    """

    def __init__(self, path: Path, timeout_s: float | None) -> None:
        self._socket = connect(path)
        self._deadline = time.monotonic() + timeout_s if timeout_s is not None else None
        self._response: BufferedReader = self._socket.makefile("rb")
        self._content_length: int | None = None
        self._chunked = False
        self.status = 0
        self.content_location = ""

    def __enter__(self) -> LocalHttpExchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()
        self._socket.close()

    def send_request(
        self, method: str, target: str, body: bytes | None, accept: str, acting_as: str | None = None
    ) -> None:
        """Send the request and read the response's headers.

        `acting_as` names the principal, and must not contain line breaks.

        Raises:
            TimeoutError: the deadline has passed.
            OSError, MalformedHttpResponse: there is no response, or it cannot be parsed.
        """
        self._apply_deadline()
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n"
        if acting_as is not None:
            head += f"Paddock-As: {acting_as}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        # A server that rejects a request early responds and closes while we are still sending.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(head.encode("ascii") + b"\r\n" + (body or b""))
        status_line = self._read_line().split(b" ", 2)
        if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/1.") or not status_line[1].isdigit():
            raise MalformedHttpResponse("not an HTTP answer")
        self.status = int(status_line[1])
        while line := self._read_line().strip():
            name, _, value = line.partition(b":")
            match name.lower():
                case b"content-length":
                    self._content_length = int(value)
                case b"transfer-encoding":
                    self._chunked = b"chunked" in value.lower()
                case b"content-location":
                    self.content_location = value.strip().decode("ascii", "replace")
                case _:
                    pass

    def read_body(self) -> bytes:
        """Return the whole body."""
        if not self._chunked:
            return self._response.read(self._content_length if self._content_length is not None else -1)
        return b"".join(iter(self.read_chunk, b""))

    def read_chunk(self) -> bytes:
        """Return the next chunk of a chunked body; empty at its end."""
        self._apply_deadline()
        try:
            size = int(self._read_line().split(b";")[0], 16)
        except ValueError:
            raise MalformedHttpResponse("a chunk without a size") from None
        chunk = self._response.read(size)
        if len(chunk) < size:
            raise MalformedHttpResponse("the answer was cut short")
        self._read_line()  # each chunk is followed by a line break
        return chunk

    def _apply_deadline(self) -> None:
        if self._deadline is None:
            self._socket.settimeout(None)
            return
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining)

    def _read_line(self) -> bytes:
        line = self._response.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise MalformedHttpResponse("the answer was cut short")
        return line

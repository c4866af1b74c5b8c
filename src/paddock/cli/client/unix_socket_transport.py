"""The transport to a running daemon: a minimal HTTP client for its Unix socket.

The standard library's client pulls in TLS and mail parsing and takes longer to import than most commands run.
One request per connection; the response has a content length or is chunked, as the daemon sends it.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from paddock.cli.client.transport import ApiRequest
from paddock.core.errors import Busy, Denied, HostError
from paddock.web.daemon_address import path_owner, socket_address

T = TypeVar("T")

CONNECT_TIMEOUT_S = 2.0  # a local socket accepts at once or not at all
_CONNECT_RETRY_S = 0.02
_MAX_LINE_BYTES = 65_536
_MAX_CHUNK_BYTES = 1 << 20


class MalformedHttpResponse(Exception):
    """The listener's response is not HTTP as the daemon sends it."""


class UnixSocketTransport:
    """Sends requests to the daemon that listens on a Unix socket."""

    has_daemon = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self, request: ApiRequest) -> Generator[UnixSocketResponse, None, None]:
        deadline = None if request.timeout_s is None else time.monotonic() + request.timeout_s
        with _daemon_lost_errors():
            connection = _connect(self.path)
        with connection, connection.makefile("rb") as stream:
            response = UnixSocketResponse(connection, stream, deadline)
            with _daemon_lost_errors():
                response.exchange_headers(request)
            yield response

    def run(self, prompt: Coroutine[Any, Any, T]) -> T:
        from paddock.cli.client.event_loop import run_async  # most commands ask nothing, and need no loop

        return run_async(prompt)


class UnixSocketResponse:
    """A response on its own connection."""

    def __init__(self, connection: socket.socket, stream: BufferedReader, deadline: float | None) -> None:
        self._connection = connection
        self._stream = stream
        self._deadline = deadline
        self._remaining: int | None = None  # bytes of the body that are still to come, if its length is known
        self._ended = False
        self.status = 0
        self.headers: dict[str, str] = {}

    def exchange_headers(self, request: ApiRequest) -> None:
        """Send the request and read the response's status and headers."""
        self._apply_deadline()
        lines = [f"{request.method} {request.target} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        if request.body is not None:
            lines.append(f"Content-Length: {len(request.body)}")
        # A server that rejects a request early responds and closes while we are still sending.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.sendall("\r\n".join((*lines, "", "")).encode("ascii") + (request.body or b""))
        status_line = self._read_line().split(b" ", 2)
        if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/1.") or not status_line[1].isdigit():
            raise MalformedHttpResponse("not an HTTP answer")
        self.status = int(status_line[1])
        while line := self._read_line().strip():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        if "content-length" in self.headers:
            self._remaining = int(self.headers["content-length"])

    def read_chunk(self) -> bytes:
        if self._ended:
            return b""
        with _daemon_lost_errors():
            self._apply_deadline()
            if "transfer-encoding" in self.headers:
                return self._read_transfer_chunk()
            if self._remaining is None:
                return self._stream.read1(_MAX_CHUNK_BYTES)
            chunk = self._stream.read1(min(self._remaining, _MAX_CHUNK_BYTES)) if self._remaining else b""
            self._remaining -= len(chunk)
            if not chunk and self._remaining:
                raise MalformedHttpResponse("the answer was cut short")
            return chunk

    def _read_transfer_chunk(self) -> bytes:
        try:
            size = int(self._read_line().split(b";")[0], 16)
        except ValueError:
            raise MalformedHttpResponse("a chunk without a size") from None
        chunk = self._stream.read(size)
        if len(chunk) < size:
            raise MalformedHttpResponse("the answer was cut short")
        self._read_line()  # each chunk is followed by a line break
        self._ended = size == 0
        return chunk

    def _apply_deadline(self) -> None:
        if self._deadline is None:
            self._connection.settimeout(None)
            return
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining)

    def _read_line(self) -> bytes:
        line = self._stream.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise MalformedHttpResponse("the answer was cut short")
        return line


def find_daemon(path: Path) -> UnixSocketTransport | None:
    """Return the transport to the daemon at this socket, if one is listening.

    Raises:
        Busy: it listens and does not accept connections.
        Denied: the home belongs to another user.
        HostError: the system does not allow the check.
    """
    try:
        _connect(path).close()
    except OSError as error:
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None  # left by a killed daemon
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _socket_owner_error(path) from None
        raise HostError(f"cannot reach the daemon: {error.strerror}", code="daemon.unreachable") from error
    return UnixSocketTransport(path)


def _connect(path: Path) -> socket.socket:
    """Connect to the socket at this path.

    Raises:
        Busy: the backlog was full until the timeout.
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
                raise Busy(
                    "the daemon does not answer",
                    code="daemon.silent",
                    hint="it is very busy or stopped; try again, or restart it",
                ) from None
        time.sleep(_CONNECT_RETRY_S)  # poll: the kernel's backlog is full, and there is nothing to wait on


@contextmanager
def _daemon_lost_errors() -> Generator[None, None, None]:
    """Turn the errors of a broken connection into one; wraps only the exchange, not what a reader does with it."""
    try:
        yield
    except TimeoutError:
        raise
    except (OSError, MalformedHttpResponse) as error:
        raise HostError(
            "the connection to the daemon was lost", code="daemon.lost", hint="start it again: paddock serve"
        ) from error


def _socket_owner_error(path: Path) -> Denied:
    owner = path_owner(path)
    ownership = f"belongs to {owner}" if owner else "belongs to somebody else"
    return Denied(
        f"the daemon's socket {path} {ownership}",
        code="daemon.not_yours",
        hint=f"run the command as {owner or 'that user'}, or set PADDOCK_HOME to a directory of your own",
    )

"""The HTTP protocol for TCP connections, with limits.

Oversized headers and slow headers or bodies are rejected. At the connection limit the longest idle connection is
closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import chain
from typing import Any, cast

from msgspec import Struct
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from paddock.core.error_formats import http_status
from paddock.core.errors import Busy, CallerError, PaddockError, TimedOut
from paddock.web.server.protocol import HttpProtocol

MAX_HEADER_FIELDS = 200
_TCP_USER_TIMEOUT_MS = 60_000  # without an acknowledgement from the peer
_LINGER_S = 2.0  # time for a rejected client to read the error


class ConnectionLimits(Struct, frozen=True):
    """Limits of TCP connections.

    Attributes:
        max_connections: Concurrent connections.
        max_header_bytes: Size of request line and headers.
        header_timeout_s, body_timeout_s: Time for the headers or the body to arrive.
        idle_timeout_s: Time without a request.
    """

    max_connections: int
    max_header_bytes: int
    header_timeout_s: float
    body_timeout_s: float
    idle_timeout_s: float

    @property
    def shortest_timeout_s(self) -> float:
        """The shortest of the timeouts."""
        return min(self.header_timeout_s, self.body_timeout_s, self.idle_timeout_s)


class HeadersTooLarge(CallerError):
    """Request line and headers exceed the limit."""

    code = "http.headers_too_large"


class RequestTimeout(TimedOut):
    """The request did not arrive in time."""

    code = "http.too_slow"


class LimitedHttpProtocol(HttpProtocol):
    """uvicorn's HTTP protocol with limits.

    `deadline` is when the request must have arrived, on the loop's clock; None while none is expected. The server
    polls it for all connections: a timer per request would cost more than all of this.
    """

    def __init__(
        self, limits: ConnectionLimits, render_error: Callable[[PaddockError], bytes], **protocol_args: Any
    ) -> None:
        super().__init__(**protocol_args)
        self.deadline: float | None = None
        self.idle_since: float = self.loop.time()
        self._limits = limits
        self._render_error = render_error
        self._reading_headers = True
        self._deadline_is_idle = False  # whether the deadline is the idle timeout
        self._header_bytes_read = 0
        self._rejected = False

    @property
    def busy(self) -> bool:
        """Whether a response is in progress."""
        return bool(self.cycle) and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.deadline = self.idle_since + self._limits.header_timeout_s
        client_socket: socket.socket = transport.get_extra_info("socket")
        # Detect clients that vanish silently, also while data for them is unacknowledged.
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)
        if len(self.connections) > self._limits.max_connections:
            self._evict_idle()

    def _evict_idle(self) -> None:
        others = cast("set[LimitedHttpProtocol]", self.connections) - {self}
        idle = [connection for connection in others if not connection.busy and not connection.transport.is_closing()]
        if idle:
            min(idle, key=lambda connection: connection.idle_since).transport.close()
        else:
            self.reject(Busy(f"{len(others):,} connections are open already", code="http.too_many_connections"))

    def on_response_complete(self) -> None:
        """Do as uvicorn, but without its keep-alive timer: the polled deadline covers idle connections."""
        self.idle_since = self.loop.time()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, cast("ASGIApp", app))
        elif self._reading_headers and self._header_bytes_read == 0:
            self._start_idle_timeout()

    def _start_idle_timeout(self) -> None:
        self._deadline_is_idle, self.deadline = True, self.loop.time() + self._limits.idle_timeout_s

    def data_received(self, data: bytes) -> None:
        if self._rejected:
            return
        if self._reading_headers:
            if self._deadline_is_idle or self.deadline is None:
                self._deadline_is_idle, self.deadline = False, self.loop.time() + self._limits.header_timeout_s
            self._header_bytes_read += len(data)
        super().data_received(data)
        if self._reading_headers and self._header_bytes_read > self._limits.max_header_bytes:
            self.reject(_headers_too_large_error(self._limits.max_header_bytes))

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.max_header_bytes:
            self.reject(_headers_too_large_error(self._limits.max_header_bytes))

    def on_headers_complete(self) -> None:
        size = len(self.url) + 4 * len(self.headers) + sum(map(len, chain.from_iterable(self.headers)))
        if size > self._limits.max_header_bytes or len(self.headers) > MAX_HEADER_FIELDS:
            self.reject(_headers_too_large_error(self._limits.max_header_bytes))
        if self._rejected:
            return
        self._reading_headers = False
        self.deadline = self.loop.time() + self._limits.body_timeout_s
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._rejected:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._rejected:
            return
        self.deadline, self._reading_headers, self._header_bytes_read = None, True, 0
        super().on_message_complete()
        if not self.busy:  # the response was complete before the request
            self._start_idle_timeout()

    def send_400_response(self, msg: str) -> None:
        del msg
        self.reject(CallerError("this is no HTTP request", code="http.malformed"))

    def time_out(self) -> None:
        """Handle a missed deadline."""
        if self._rejected or (self._reading_headers and self._header_bytes_read == 0):
            self.transport.close()  # no request was started, so no client waits for a response
        else:
            self.reject(RequestTimeout("the request did not arrive in time", hint="send it in one go"))

    def reject(self, error: PaddockError) -> None:
        """Send an error, unless a response is in progress, and ignore further input."""
        if self._rejected:
            return
        self._rejected, self.deadline = True, self.loop.time() + _LINGER_S
        self._unset_keepalive_if_required()
        # With pipelined requests the error would be taken for the response to an earlier one, or land inside it.
        response_started = self.busy and (self.cycle is not self.active_cycle or self.cycle.response_started)
        if not response_started and not self.transport.is_closing():
            body = self._render_error(error)
            head = [STATUS_LINE[http_status(error)]]
            for name, value in self.server_state.default_headers:
                head += [name, b": ", value, b"\r\n"]
            head.append(b"content-type: application/problem+json\r\ncontent-length: %d\r\n" % len(body))
            self.transport.write(b"".join([*head, b"connection: close\r\n\r\n", body]))
        self.notify_disconnect()
        if not self.transport.is_closing():
            # Read and drop incoming data for a moment: after an immediate close the client would lose the response.
            self.transport.write_eof()


def _headers_too_large_error(max_bytes: int) -> HeadersTooLarge:
    return HeadersTooLarge(
        f"address and headers of a request may have {max_bytes:,} bytes and {MAX_HEADER_FIELDS} fields",
        hint="send less, or raise http.max_header_bytes",
    )

"""One connection over TCP: uvicorn's HTTP, with an end to what a client may take.

Headers that are too big, and headers and bodies that take too long, are refused; whoever has waited longest gives way
when there are too many connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from paddock.core.errors import Busy, CallerError, PaddockError, TimedOut
from paddock.core.outward import http_status
from paddock.http.answering import AnsweringConnection

MOST_HEADERS = 200
_GONE_AFTER = 60_000  # milliseconds without a sign of life
_LINGERS = 2.0  # seconds that a client which was refused has to read why


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may take.

    Attributes:
        connections: How many there may be.
        header_bytes: Of an address with its headers.
        header_s, body_s: Seconds for all of them to arrive.
        idle_s: Seconds without a request.
    """

    connections: int
    header_bytes: int
    header_s: float
    body_s: float
    idle_s: float

    @property
    def shortest(self) -> float:
        """The shortest time after which something is late."""
        return min(self.header_s, self.body_s, self.idle_s)


class HeadersTooLarge(CallerError):
    """More than anybody has to say before a request."""

    code = "http.headers_too_large"


class TooSlow(TimedOut):
    """It did not arrive in time."""

    code = "http.too_slow"


class BoundedConnection(AnsweringConnection):
    """uvicorn's HTTP with bounds.

    `deadline` is when a request has to be here, on the loop's clock; None while none is expected. Whoever listens looks
    at it now and then: a timer for each request would cost more than all of this.
    """

    def __init__(self, limits: ConnectionLimits, problem: Callable[[PaddockError], bytes], **served: Any) -> None:
        super().__init__(**served)
        self.deadline: float | None = None
        self.waits_since: float = self.loop.time()
        self._limits = limits
        self._problem = problem
        self._expects_head = True
        self._idle = False  # whether the deadline is that of somebody who is in no hurry
        self._head = 0
        self._refused = False

    @property
    def busy(self) -> bool:
        """Whether something is being answered."""
        return bool(self.cycle) and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.deadline = self.waits_since + self._limits.header_s
        connected: socket.socket = transport.get_extra_info("socket")
        # A client that is gone without a word is noticed, also where something is still to be sent to it.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_AFTER)
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        others = cast("set[BoundedConnection]", self.connections) - {self}
        idle = [one for one in others if not one.busy and not one.transport.is_closing()]
        if idle:
            min(idle, key=lambda one: one.waits_since).transport.close()
        else:
            self.refuse(Busy(f"{len(others):,} connections are open already", code="http.too_many_connections"))

    def on_response_complete(self) -> None:
        """As uvicorn does it, but for the timer: whoever looks for late ones finds those that are idle too."""
        self.waits_since = self.loop.time()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, cast("ASGIApp", app))
        elif self._expects_head and self._head == 0:
            self._is_idle()

    def _is_idle(self) -> None:
        self._idle, self.deadline = True, self.loop.time() + self._limits.idle_s

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._expects_head:
            if self._idle or self.deadline is None:
                self._idle, self.deadline = False, self.loop.time() + self._limits.header_s
            self._head += len(data)
        super().data_received(data)
        if self._expects_head and self._head > self._limits.header_bytes:
            self.refuse(_too_large(self._limits.header_bytes))

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.header_bytes:
            self.refuse(_too_large(self._limits.header_bytes))

    def on_headers_complete(self) -> None:
        size = len(self.url) + 4 * len(self.headers) + sum(map(len, chain.from_iterable(self.headers)))
        if size > self._limits.header_bytes or len(self.headers) > MOST_HEADERS:
            self.refuse(_too_large(self._limits.header_bytes))
        if self._refused:
            return
        self._expects_head = False
        self.deadline = self.loop.time() + self._limits.body_s
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refused:
            return
        self.deadline, self._expects_head, self._head = None, True, 0
        super().on_message_complete()
        if not self.busy:  # it was answered before it was here
            self._is_idle()

    def send_400_response(self, msg: str) -> None:
        del msg
        self.refuse(CallerError("this is no HTTP request", code="http.malformed"))

    def late(self) -> None:
        """What was expected is not here."""
        if self._refused or (self._expects_head and self._head == 0):
            self.transport.close()  # it never began, and nobody waits for an answer
        else:
            self.refuse(TooSlow("the request did not arrive in time", hint="send it in one go"))

    def refuse(self, error: PaddockError) -> None:
        """Say why, where nothing is being said already, and hear no more."""
        if self._refused:
            return
        self._refused, self.deadline = True, self.loop.time() + _LINGERS
        self._unset_keepalive_if_required()
        # Where others are before it, these words would be taken for the answer to them, or stand in the midst of one.
        begun = self.busy and (self.cycle is not self.answering or self.cycle.response_started)
        if not begun and not self.transport.is_closing():
            body = self._problem(error)
            head = [STATUS_LINE[http_status(error)]]
            for name, value in self.server_state.default_headers:
                head += [name, b": ", value, b"\r\n"]
            head.append(b"content-type: application/problem+json\r\ncontent-length: %d\r\n" % len(body))
            self.transport.write(b"".join([*head, b"connection: close\r\n\r\n", body]))
        self.give_up()
        if not self.transport.is_closing():
            # What is on its way is read and dropped for a moment: closed at once, the client would lose the answer.
            self.transport.write_eof()


def _too_large(most: int) -> HeadersTooLarge:
    return HeadersTooLarge(
        f"address and headers of a request may have {most:,} bytes and {MOST_HEADERS} fields",
        hint="send less, or raise http.max_header_bytes",
    )

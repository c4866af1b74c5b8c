"""The HTTP protocol of one connection, shared by the Unix socket and TCP servers."""

from __future__ import annotations

import re
from typing import cast

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paddock.web.disconnect import client_connection
from paddock.web.server.response_coalescing import ResponseCoalescer

_ABSOLUTE_TARGET = re.compile(
    rb"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol that notifies the handler when the client disconnects.

    uvicorn itself notifies only the newest request of a connection: with a pipelined request behind it, an older
    response would continue for a client that left, an event stream for ever.
    """

    active_cycle: RequestResponseCycle | None = None  # the oldest request without a complete response

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.active_cycle = cycle
        super()._start_asgi_task(cycle, ResponseCoalescer(app, cycle))  # pyright: ignore[reportArgumentType]  # the same type

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            self._use_host_of_target()
        super().on_headers_complete()

    def _use_host_of_target(self) -> None:
        """Take the host from a target in absolute form, in place of the Host header, as RFC 9112 (3.2.2) demands.

        Otherwise the two could name different hosts, and only one of them would be checked. A request without exactly
        one Host header stays as it is, and is refused for that.
        """
        target = _ABSOLUTE_TARGET.fullmatch(self.url)
        if target is None:
            return  # `*`, an authority or nonsense
        authority = target["authority"] if target["scheme"].lower() in (b"http", b"https") else self.url
        positions = [position for position, (name, _) in enumerate(self.headers) if name == b"host"]
        if len(positions) == 1:
            self.headers[positions[0]] = (b"host", authority)
        self.url = target["rest"] if target["rest"].startswith(b"/") else b"/" + target["rest"]

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is self.active_cycle:
            self.flow.resume_reading()  # a large body paused it, which hides disconnects

    def connection_lost(self, exc: Exception | None) -> None:
        self.notify_disconnect()
        super().connection_lost(exc)

    def notify_disconnect(self) -> None:
        """Notify the handler of the active request that its client has left."""
        if self.active_cycle is not None and not self.active_cycle.response_complete:
            self.active_cycle.disconnected = True
            self.active_cycle.message_event.set()
            client_connection(cast("Scope", self.active_cycle.scope)).mark_disconnected()

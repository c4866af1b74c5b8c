"""The HTTP protocol of one connection, shared by the Unix socket and TCP servers."""

from __future__ import annotations

from typing import cast

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paddock.web.disconnect import client_connection
from paddock.web.server.response_coalescing import ResponseCoalescer


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol that notifies the handler when the client disconnects.

    uvicorn itself notifies only the newest request of a connection: with a pipelined request behind it, an older
    response would continue for a client that left, an event stream for ever.
    """

    active_cycle: RequestResponseCycle | None = None  # the oldest request without a complete response

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.active_cycle = cycle
        super()._start_asgi_task(cycle, ResponseCoalescer(app, cycle))  # pyright: ignore[reportArgumentType]  # the same type

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

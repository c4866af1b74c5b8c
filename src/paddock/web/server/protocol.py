"""One connection that requests are answered on: what the local socket and TCP have in common."""

from __future__ import annotations

from typing import cast

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paddock.web.disconnect import client_connection
from paddock.web.server.response_coalescing import ResponseCoalescer


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, which tells whoever answers a request when its client is gone.

    uvicorn itself tells only whoever has the newest request of a connection: with another one sent behind it, what is
    answered would go on for a client that hung up, a stream of events for ever.
    """

    active_cycle: RequestResponseCycle | None = None  # the oldest request that has no whole answer yet, or the last one

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.active_cycle = cycle
        super()._start_asgi_task(cycle, ResponseCoalescer(app, cycle))  # pyright: ignore[reportArgumentType]  # the same type

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is self.active_cycle:
            self.flow.resume_reading()  # a large body had it paused, and a client that hangs up would not be noticed

    def connection_lost(self, exc: Exception | None) -> None:
        self.notify_disconnect()
        super().connection_lost(exc)

    def notify_disconnect(self) -> None:
        """Tell whoever answers that nobody listens."""
        if self.active_cycle is not None and not self.active_cycle.response_complete:
            self.active_cycle.disconnected = True
            self.active_cycle.message_event.set()
            client_connection(cast("Scope", self.active_cycle.scope)).mark_disconnected()

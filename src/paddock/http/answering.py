"""One connection that requests are answered on: what the local socket and TCP have in common."""

from __future__ import annotations

from typing import cast

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paddock.http.client import client_of
from paddock.http.whole_answers import WholeAnswers


class AnsweringConnection(HttpToolsProtocol):
    """uvicorn's HTTP, which tells whoever answers a request when its client is gone.

    uvicorn itself tells only whoever has the newest request of a connection: with another one sent behind it, what is
    answered would go on for a client that hung up, a stream of events for ever.
    """

    answering: RequestResponseCycle | None = None  # the oldest request that has no whole answer yet, or the last one

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.answering = cycle
        super()._start_asgi_task(cycle, WholeAnswers(app, cycle))  # pyright: ignore[reportArgumentType]  # the same type

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle is self.answering:
            self.flow.resume_reading()  # a large body had it paused, and a client that hangs up would not be noticed

    def connection_lost(self, exc: Exception | None) -> None:
        self.give_up()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Tell whoever answers that nobody listens."""
        if self.answering is not None and not self.answering.response_complete:
            self.answering.disconnected = True
            self.answering.message_event.set()
            client_of(cast("Scope", self.answering.scope)).is_gone()

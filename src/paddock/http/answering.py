"""One connection that requests are answered on: what the local socket and TCP have in common."""

from __future__ import annotations

import asyncio
from typing import cast

from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paddock.http.answer_transport import AnswerTransport


class AnsweringConnection(HttpToolsProtocol):
    """uvicorn's HTTP, which tells whoever answers a request when its client is gone.

    uvicorn itself tells only whoever has the newest request of a connection: with another one sent behind it, what is
    answered would go on for a client that hung up, a stream of events for ever.
    """

    answering: RequestResponseCycle | None = None  # the oldest request that has no whole answer yet, or the last one

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", AnswerTransport(transport))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.answering = cycle
        super()._start_asgi_task(cycle, app)  # pyright: ignore[reportArgumentType]  # the same, by another name

    def connection_lost(self, exc: Exception | None) -> None:
        self.give_up()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Tell whoever answers that nobody listens."""
        if self.answering is not None and not self.answering.response_complete:
            self.answering.disconnected = True
            self.answering.message_event.set()

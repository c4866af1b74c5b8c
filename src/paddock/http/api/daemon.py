"""The daemon itself: whether it lives, whether it takes work, and looking again at what commands changed."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Busy
from paddock.host.exposition import CONTENT_TYPE
from paddock.host.host import Host
from paddock.http.endpoint import Endpoint, answer


class DaemonRoutes:
    """Small answers about the daemon as a whole."""

    def __init__(self, host: Host, draining: asyncio.Event) -> None:
        self._host = host
        self._draining = draining

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/healthz", self.healthz, "Is the daemon alive?", "Its pid.", prefix=""),
            Endpoint("GET", "/readyz", self.readyz, "Does it take calls?", "Yes; 503 when going down.", prefix=""),
            Endpoint(
                "GET",
                "/metrics",
                self.metrics,
                "Numbers for Prometheus",
                "Calls, how long they took, decisions, restarts, what waits.",
                media="text/plain",
                prefix="",
            ),
            Endpoint(
                "POST",
                "/reconcile",
                self.reconcile,
                "Look again at what is installed and enabled",
                "Done: what a command changed is in effect.",
            ),
        ]

    async def healthz(self, request: Request) -> Response:
        del request
        return answer({"status": "alive", "pid": os.getpid()})

    async def readyz(self, request: Request) -> Response:
        del request
        if self._draining.is_set():
            raise Busy("the daemon is shutting down", code="host.draining", hint="try again when it is back")
        return answer({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        del request
        return Response(self._host.metrics.text(), media_type=CONTENT_TYPE)

    async def reconcile(self, request: Request) -> Response:
        del request
        await self._host.reconcile()
        return answer({"status": "done"})

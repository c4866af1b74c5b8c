"""The daemon itself: whether it lives, whether it takes work, and looking again at what commands changed."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Busy
from paddock.host.exposition import CONTENT_TYPE
from paddock.host.host import Host
from paddock.http.auth import Caller
from paddock.http.endpoint import ANYBODY, HOST, LOCAL, Endpoint, answer
from paddock.http.schemas.building import TEXT, ref

_TAG = "daemon"
_READY = "Yes; 503 when it goes down, or as long as nothing can be recorded."
_STATUS = (
    "`takes_calls`, and `troubles`: each an error with what it is `about`, which is the `ledger` where nothing can be"
    " recorded, `checkpoints` where none can be made, and `rules` where those in the files cannot be used."
)


class DaemonRoutes:
    """Small answers about the daemon as a whole."""

    def __init__(self, host: Host, draining: asyncio.Event) -> None:
        self._host = host
        self._draining = draining

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/healthz",
                self.healthz,
                "Is the daemon alive?",
                "`status`; on the local socket its `pid` too.",
                gives=ref("Alive"),
                prefix="",
                tag=_TAG,
                who=ANYBODY,
            ),
            Endpoint(
                "GET",
                "/readyz",
                self.readyz,
                "Does it take calls?",
                _READY,
                gives=ref("Ready"),
                fails=(503,),
                prefix="",
                tag=_TAG,
                who=ANYBODY,
            ),
            Endpoint(
                "GET",
                "/status",
                self.status,
                "How is the daemon doing?",
                _STATUS,
                gives=ref("Condition"),
                tag=_TAG,
                who=HOST,
            ),
            Endpoint(
                "GET",
                "/metrics",
                self.metrics,
                "Numbers for Prometheus",
                "Calls, how long they took, decisions, restarts, what waits, what is in doubt.",
                gives=TEXT,
                media="text/plain",
                prefix="",
                tag=_TAG,
                who=HOST,
            ),
            Endpoint(
                "POST",
                "/reconcile",
                self.reconcile,
                "Look again at what is installed and enabled",
                "Done: what a command changed is in effect.",
                gives=ref("Done"),
                tag=_TAG,
                who=LOCAL,
            ),
            Endpoint(
                "POST",
                "/principals/changed",
                self.look_again,
                "Look again at who may act",
                "Done: no credential is taken any more that a command took away.",
                gives=ref("Done"),
                tag=_TAG,
                who=LOCAL,
            ),
        ]

    async def healthz(self, request: Request) -> Response:
        caller: Caller | None = request.state.caller
        own = {"pid": os.getpid()} if caller is not None and caller.via == "socket" else {}
        return answer({"status": "alive", **own})

    async def readyz(self, request: Request) -> Response:
        del request
        if self._draining.is_set():
            raise Busy("the daemon is shutting down", code="host.draining", hint="try again when it is back")
        if (refusing := self._host.condition.refusing) is not None:
            raise refusing
        return answer({"status": "ready"})

    async def status(self, request: Request) -> Response:
        del request
        return answer(self._host.condition.to_json())

    async def metrics(self, request: Request) -> Response:
        del request
        metrics = self._host.metrics
        return Response(metrics.text(await metrics.in_doubt()), media_type=CONTENT_TYPE)

    async def reconcile(self, request: Request) -> Response:
        del request
        await self._host.reconcile()
        return answer({"status": "done"})

    async def look_again(self, request: Request) -> Response:
        del request
        self._host.credentials.look_again()
        return answer({"status": "done"})

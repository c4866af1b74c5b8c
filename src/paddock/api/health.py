"""Health, readiness, status and metrics of the daemon, and its reload request for commands."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Literal, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Busy
from paddock.core.schema_annotations import NonNegativeInt
from paddock.host.host import Host
from paddock.host.observability.health import HealthJson
from paddock.host.observability.metrics import PluginCallStatsJson
from paddock.host.observability.prometheus import CONTENT_TYPE
from paddock.web.routing.route import HOST, LOCAL, PUBLIC, ApiRoute, JsonResponse
from paddock.web.security.authenticate import Caller

_TAG = "daemon"


class AliveJson(TypedDict):
    status: Literal["alive"]
    pid: NotRequired[Annotated[NonNegativeInt, "Only on the local socket."]]


class ReadyJson(TypedDict):
    status: Literal["ready"]


class DoneJson(TypedDict):
    status: Literal["done"]


class StatusJson(HealthJson):
    """The status of the daemon."""

    plugins: Annotated[list[PluginCallStatsJson], "One for each plugin and tenant with a call since the start."]


class HealthRoutes:
    """Routes about the daemon as a whole."""

    def __init__(self, host: Host, draining: asyncio.Event) -> None:
        self._host = host
        self._draining = draining

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/healthz",
                self.healthz,
                "Liveness check",
                "The daemon is alive.",
                prefix="",
                tag=_TAG,
                access=PUBLIC,
            ),
            ApiRoute(
                "GET",
                "/readyz",
                self.readyz,
                "Readiness check",
                "The daemon takes calls; 503 while it shuts down, or while the ledger cannot be written.",
                error_statuses=(503,),
                prefix="",
                tag=_TAG,
                access=PUBLIC,
            ),
            ApiRoute(
                "GET",
                "/status",
                self.status,
                "Show the status of the daemon",
                "Whether it takes calls, its current problems, and the calls of each plugin.",
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "GET",
                "/metrics",
                self.metrics,
                "Metrics for Prometheus",
                "Calls and their durations, decisions, restarts, queues, and calls with an unknown outcome.",
                media_type="text/plain",
                prefix="",
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "POST",
                "/reconcile",
                self.reconcile,
                "Reconcile installed and enabled plugins",
                "Done: what killed processes left is cleaned up, and changes made by a command are in effect.",
                tag=_TAG,
                access=LOCAL,
            ),
        ]

    async def healthz(self, request: Request) -> JsonResponse[AliveJson]:
        caller: Caller | None = request.state.caller
        if caller is not None and caller.via == "socket":
            return JsonResponse({"status": "alive", "pid": os.getpid()})
        return JsonResponse({"status": "alive"})

    async def readyz(self, request: Request) -> JsonResponse[ReadyJson]:
        del request
        if self._draining.is_set():
            raise Busy("the daemon is shutting down", code="host.draining", hint="try again when it is back")
        if (error := self._host.observability.health.blocking_error) is not None:
            raise error
        return JsonResponse({"status": "ready"})

    async def status(self, request: Request) -> JsonResponse[StatusJson]:
        del request
        plugins = [stats.to_json() for stats in self._host.observability.metrics.plugin_call_stats()]
        return JsonResponse({**self._host.observability.health.to_json(), "plugins": plugins})

    async def metrics(self, request: Request) -> Response:
        del request
        metrics = self._host.observability.metrics
        return Response(
            metrics.render(await metrics.count_unknown_outcomes(), await metrics.count_held()), media_type=CONTENT_TYPE
        )

    async def reconcile(self, request: Request) -> JsonResponse[DoneJson]:
        del request
        await self._host.plugins.lifecycle.clean_up_interrupted()
        await self._host.plugins.lifecycle.reconcile()
        return JsonResponse({"status": "done"})

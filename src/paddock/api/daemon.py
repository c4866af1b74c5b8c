"""Health, readiness, status and metrics of the daemon, and its reload requests for commands."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Busy
from paddock.host.host import Host
from paddock.host.observability.prometheus import CONTENT_TYPE
from paddock.web.routing.route import ANYBODY, HOST, LOCAL, ApiRoute, json_response
from paddock.web.routing.schema import (
    BOOLEAN,
    NON_NEGATIVE_INT,
    NUMBER,
    TEXT,
    Schema,
    array_of,
    enum_of,
    nullable,
    object_schema,
    ref,
)
from paddock.web.security.authenticate import Caller

_TAG = "daemon"
_READY = "Yes; 503 when it goes down, or as long as nothing can be recorded."
_STATUS = (
    "`takes_calls`, and `troubles`: each an error with what it is `about`, which is the `ledger` where nothing can be"
    " recorded, `checkpoints` where none can be made, and `rules` where those in the files cannot be used. `plugins`:"
    " for each plugin that was called since the daemon started, of each tenant, how many `calls` ended and how many of"
    " them `failed`, the `error_rate`, and `latency_s`, a histogram of the calls that reached the plugin: each bucket"
    " counts the calls that took up to `le` seconds."
)


class DaemonRoutes:
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
                "Is the daemon alive?",
                "`status`; on the local socket its `pid` too.",
                response_schema=ref("Alive"),
                prefix="",
                tag=_TAG,
                access=ANYBODY,
            ),
            ApiRoute(
                "GET",
                "/readyz",
                self.readyz,
                "Does it take calls?",
                _READY,
                response_schema=ref("Ready"),
                error_statuses=(503,),
                prefix="",
                tag=_TAG,
                access=ANYBODY,
            ),
            ApiRoute(
                "GET",
                "/status",
                self.status,
                "How is the daemon doing?",
                _STATUS,
                response_schema=ref("Condition"),
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "GET",
                "/metrics",
                self.metrics,
                "Numbers for Prometheus",
                "Calls, how long they took, decisions, restarts, what waits, what is in doubt.",
                response_schema=TEXT,
                media_type="text/plain",
                prefix="",
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "POST",
                "/reconcile",
                self.reconcile,
                "Look again at what is installed and enabled",
                "Done: what a command changed is in effect.",
                response_schema=ref("Done"),
                tag=_TAG,
                access=LOCAL,
            ),
            ApiRoute(
                "POST",
                "/principals/changed",
                self.look_again,
                "Look again at who may act",
                "Done: no credential is taken any more that a command took away.",
                response_schema=ref("Done"),
                tag=_TAG,
                access=LOCAL,
            ),
        ]

    async def healthz(self, request: Request) -> Response:
        caller: Caller | None = request.state.caller
        process = {"pid": os.getpid()} if caller is not None and caller.via == "socket" else {}
        return json_response({"status": "alive", **process})

    async def readyz(self, request: Request) -> Response:
        del request
        if self._draining.is_set():
            raise Busy("the daemon is shutting down", code="host.draining", hint="try again when it is back")
        if (error := self._host.health.blocking_error) is not None:
            raise error
        return json_response({"status": "ready"})

    async def status(self, request: Request) -> Response:
        del request
        plugins = [stats.to_json() for stats in self._host.metrics.plugin_call_stats()]
        return json_response(self._host.health.to_json() | {"plugins": plugins})

    async def metrics(self, request: Request) -> Response:
        del request
        metrics = self._host.metrics
        return Response(metrics.render(await metrics.count_unknown_outcomes()), media_type=CONTENT_TYPE)

    async def reconcile(self, request: Request) -> Response:
        del request
        await self._host.reconcile()
        return json_response({"status": "done"})

    async def look_again(self, request: Request) -> Response:
        del request
        self._host.credentials.invalidate()
        return json_response({"status": "done"})


SCHEMAS: dict[str, Schema] = {
    "Alive": object_schema({"status": enum_of(("alive",)), "pid": NON_NEGATIVE_INT}, optional=("pid",)),
    "Ready": object_schema({"status": enum_of(("ready",))}),
    "Condition": object_schema(
        {"takes_calls": BOOLEAN, "troubles": array_of(ref("Trouble")), "plugins": array_of(ref("PluginCallStats"))}
    ),
    "PluginCallStats": object_schema(
        {
            "tenant": TEXT,
            "plugin": TEXT,
            "calls": NON_NEGATIVE_INT,
            "failed": NON_NEGATIVE_INT,
            "error_rate": NUMBER,
            "latency_s": object_schema(
                {
                    "count": NON_NEGATIVE_INT,
                    "sum": NUMBER,
                    "buckets": array_of(object_schema({"le": nullable(NUMBER), "count": NON_NEGATIVE_INT})),
                }
            ),
        }
    ),
    "Done": object_schema({"status": enum_of(("done",))}),
}

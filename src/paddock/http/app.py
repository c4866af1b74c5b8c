"""The application: proves who calls, finds the handler, and turns every error into a problem body."""

from __future__ import annotations

import asyncio
import os
import re
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from paddock import __version__
from paddock.core.clock import Clock, Random
from paddock.core.ids import new_id
from paddock.host.host import Host
from paddock.http.api.actions import ActionRoutes
from paddock.http.api.approvals import ApprovalRoutes
from paddock.http.api.artifacts import ArtifactRoutes
from paddock.http.api.calls import CallRoutes
from paddock.http.api.daemon import DaemonRoutes
from paddock.http.api.definitions import DefinitionRoutes
from paddock.http.api.documents import DocumentRoutes
from paddock.http.api.plugins import PluginRoutes
from paddock.http.auth import local_operator
from paddock.http.endpoint import Endpoint, answer
from paddock.http.openapi import document
from paddock.http.problems import Problems

_FREE = re.compile(rb"(?<!/plugins)/(?:call|prompts)/")


class Api:
    """The application of one daemon.

    `draining` is set once no new work is taken, `closing` once whoever still follows something must go.
    """

    def __init__(self, host: Host, clock: Clock, random: Random) -> None:
        self.draining = asyncio.Event()
        self.closing = asyncio.Event()
        self.endpoints: tuple[Endpoint, ...] = (
            *PluginRoutes(host, self.closing).endpoints(),
            *DefinitionRoutes(host).endpoints(),
            *DocumentRoutes(host).endpoints(),
            *CallRoutes(host, self.closing).endpoints(),
            *ActionRoutes(host).endpoints(),
            *ApprovalRoutes(host).endpoints(),
            *ArtifactRoutes(host).endpoints(),
            *DaemonRoutes(host, self.draining).endpoints(),
            Endpoint("GET", "/openapi.json", self.openapi, "Describe this API", "An OpenAPI 3.1 document."),
        )
        router = Router([one.route() for one in self.endpoints], redirect_slashes=False)
        self._app = Problems(_Proving(router, os.geteuid()), partial(new_id, "err", clock, random))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def openapi(self, request: Request) -> Response:
        del request
        return answer(document(self.endpoints, __version__))


class _Proving:
    """Lets nobody in whom it does not know."""

    def __init__(self, inside: Router, own_uid: int) -> None:
        self._inside = inside
        self._own_uid = own_uid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        state["caller"] = local_operator(state.get("peer"), self._own_uid)
        if _misleading(scope):
            raise HTTPException(404)
        scope["app"] = self  # then the router raises what it cannot serve, and the problem body is ours
        await self._inside(scope, receive, send)


def _misleading(scope: Scope) -> bool:
    """Whether an address means something else once it is decoded: names have no slash and nothing that does not print.

    What can be called may have a slash, and prompts too, so behind `/call/` and `/prompts/` it is taken as it comes.
    """
    before = _FREE.split(bytes(scope["raw_path"]), maxsplit=1)[0]
    return b"%2f" in before.lower() or not scope["path"].isprintable()

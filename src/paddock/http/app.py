"""The application: proves who calls, finds the handler, and turns every error into a problem body."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from paddock import __version__
from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.ids import new_id
from paddock.core.outward import problem_body
from paddock.host.host import Host
from paddock.http.api.actions import ActionRoutes
from paddock.http.api.activation import ActivationRoutes
from paddock.http.api.approvals import ApprovalRoutes
from paddock.http.api.artifacts import ArtifactRoutes
from paddock.http.api.calls import CallRoutes
from paddock.http.api.daemon import DaemonRoutes
from paddock.http.api.definitions import DefinitionRoutes
from paddock.http.api.documents import DocumentRoutes
from paddock.http.api.events import EventRoutes
from paddock.http.api.knobs import KnobRoutes
from paddock.http.api.ledger import LedgerRoutes
from paddock.http.api.plugins import PluginRoutes
from paddock.http.api.session import SessionRoutes
from paddock.http.api.versions import VersionRoutes
from paddock.http.api.webhooks import WebhookRoutes
from paddock.http.auth import Bearer, ChallengeParameters, KeyBearer, Proof, not_proven
from paddock.http.browsers import Browsers, dressed
from paddock.http.console.console import pages_of
from paddock.http.console.problem_page import ProblemPage
from paddock.http.cookies import Cookies
from paddock.http.endpoint import ANYBODY, Endpoint, answer
from paddock.http.openapi import document
from paddock.http.problems import Problems
from paddock.http.sites import NOWHERE, Sites
from paddock.http.table import Row, Table, answer_with

_FREE = re.compile(rb"(?<!/plugins)/(?:call|prompts)/")


class Api:
    """The application of one daemon.

    `draining` is set once no new work is taken, `closing` once whoever still follows something must go.

    Args:
        host: What it is the outside of.
        clock, random: For the ids of errors.
        mounts: Whole applications by where they are, as in `/mcp`. Nobody gets to them without a credential, and they
            find the `Caller` in `scope["state"]["caller"]`.
        more: Rows beside those of the host.
        bearers: Kinds of tokens that are taken beside API keys.
        challenge: What whoever is not proven to be anybody is told beside the realm.
        sites: The names that lead here over TCP, and the pages that may ask.
        sign_in: Where people sign in with an identity provider, if they can.
    """

    def __init__(
        self,
        host: Host,
        clock: Clock,
        random: Random,
        *,
        mounts: Mapping[str, ASGIApp] | None = None,
        more: Sequence[Endpoint] = (),
        bearers: Sequence[Bearer] = (),
        challenge: ChallengeParameters | None = None,
        sites: Sites = NOWHERE,
        sign_in: str = "",
    ) -> None:
        self.draining = asyncio.Event()
        self.closing = asyncio.Event()
        self.endpoints: tuple[Endpoint, ...] = (
            *CallRoutes(host, self.closing).endpoints(),
            *ActivationRoutes(host).endpoints(),
            *PluginRoutes(host, self.closing).endpoints(),
            *VersionRoutes(host).endpoints(),
            *KnobRoutes(host).endpoints(),
            *DefinitionRoutes(host).endpoints(),
            *DocumentRoutes(host).endpoints(),
            *ActionRoutes(host).endpoints(),
            *ApprovalRoutes(host).endpoints(),
            *ArtifactRoutes(host).endpoints(),
            *LedgerRoutes(host, self.closing).endpoints(),
            *EventRoutes(host, self.closing).endpoints(),
            *WebhookRoutes(host).endpoints(),
            *SessionRoutes(host).endpoints(),
            *DaemonRoutes(host, self.draining).endpoints(),
            Endpoint("GET", "/openapi.json", self.openapi, "Describe this API", "An OpenAPI 3.1 document."),
            *more,
        )
        proof = Proof((KeyBearer(host), *bearers), os.geteuid(), Cookies(host, sites).caller)
        rows: tuple[Row, ...] = (*self.endpoints, *pages_of(host, self.closing))
        inside = Browsers(_Proving(proof, rows, mounts or {}), sites)
        self._sites = sites
        self._new_error_id = partial(new_id, "err", clock, random)
        self._app = Problems(inside, self._new_error_id, challenge, ProblemPage(sign_in))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, dressed(scope, send, self._sites))

    def problem(self, error: PaddockError) -> bytes:
        """The body that tells of an error, for whoever refuses a request before it gets here."""
        return orjson.dumps(problem_body(error, self._new_error_id()))

    async def openapi(self, request: Request) -> Response:
        del request
        return answer(document(self.endpoints, __version__))


class _Proving:
    """Lets whoever is not proven to be anybody to nothing but what is for anybody: they have a table of their own."""

    def __init__(self, proof: Proof, rows: Sequence[Row], mounts: Mapping[str, ASGIApp]) -> None:
        self._proof = proof
        self._all = Table(rows)
        self._open = Table(one for one in rows if one.who is ANYBODY)
        self._mounts = tuple(mounts.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        caller = state["caller"] = await self._proof.caller(scope)
        state["proof"] = self._proof  # for what goes on for long; see `live.while_let`
        if _misleading(scope):
            raise HTTPException(404)
        if caller is None:
            await answer_with(self._open_row(scope), scope, receive, send)
            return
        path = scope["path"]
        for place, app in self._mounts:
            if path == place or path.startswith(f"{place}/"):
                await app(scope, receive, send)
                return
        await answer_with(self._all.row_for(scope), scope, receive, send)

    def _open_row(self, scope: Scope) -> Row:
        try:
            return self._open.row_for(scope)
        except HTTPException as error:
            raise (not_proven() if error.status_code == 404 else error) from None


def _misleading(scope: Scope) -> bool:
    """Whether an address means something else once it is decoded: names have no slash and nothing that does not print.

    What can be called may have a slash, and prompts too, so behind `/call/` and `/prompts/` it is taken as it comes.
    """
    if b"%" not in scope["raw_path"]:
        return not scope["path"].isprintable()
    before = _FREE.split(bytes(scope["raw_path"]), maxsplit=1)[0]
    return b"%2f" in before.lower() or not scope["path"].isprintable()

"""Switching on what changes how the assistant behaves: said in words first, and confirmed by a person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NeedsConsent, PaddockError, Problem
from paddock.core.outward import http_status
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done, page, plugin_page
from paddock.http.endpoint import OPERATOR, named


class ActivationPages:
    """A plugin is on for all of a tenant: every member may read what that changes, an operator may change it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/activate", self.ask),
            Page("POST", "/plugins/{name}/activate", self.activate, OPERATOR),
            Page("POST", "/plugins/{name}/deactivate", self.deactivate, OPERATOR),
        ]

    async def ask(self, request: Request) -> Response:
        return await self._dialog(request)

    async def _dialog(self, request: Request, problem: Problem | None = None, status: int = 200) -> Response:
        context = await context_of(self._host, request)
        one = await self._host.activation.proposed(named(request), context)
        return page(request, "activation.html", {"one": one, "problem": problem}, status)

    async def activate(self, request: Request) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        if not sent.one("user_confirmation"):
            wrong = Problem("user_confirmation", "Confirm first that you read what changes")
            return await self._dialog(request, wrong, 422)
        try:
            started = await self._host.enable(name, tenant=context.tenant, by=context.principal.id)
        except NeedsConsent:
            wrong = Problem("", "It asks for more than was granted", "Enable it on its own page, where you see what")
            return await self._dialog(request, wrong, 403)
        except PaddockError as refused:
            wrong = refused.as_problem()
            return await self._dialog(request, wrong, http_status(refused))
        return done(plugin_page(started["name"], "activate"), "activated")

    async def deactivate(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        off = await self._host.disable(name, context.tenant, by=context.principal.id)
        return done(plugin_page(off["name"], "activate"), "deactivated")

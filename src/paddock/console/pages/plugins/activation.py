"""Activation of a plugin that describes how the assistant should behave: what it describes, and the switch."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, plugin_path, redirect_with_flash, render_page
from paddock.core.error_formats import http_status
from paddock.core.errors import NeedsConsent, PaddockError, Problem
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class ActivationPages:
    """Activation for the whole tenant: every member may see its effects, an operator may change it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/activate", self.show_form),
            Page("POST", "/plugins/{name}/activate", self.activate, OPERATOR),
            Page("POST", "/plugins/{name}/deactivate", self.deactivate, OPERATOR),
        ]

    async def show_form(self, request: Request) -> Response:
        return await self._render_form(request)

    async def _render_form(self, request: Request, problem: Problem | None = None, status: int = 200) -> Response:
        context = await call_context(self._host, request)
        preview = await self._host.calls.activation.preview(path_param(request), context)
        return render_page(
            request,
            "plugins/activation.html",
            {"one": preview, "problem": problem, "trail_plugin": path_param(request)},
            status,
        )

    async def activate(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        if not form.last_text("user_confirmation"):
            problem = Problem("user_confirmation", "Confirm first that you read what changes")
            return await self._render_form(request, problem, 422)
        try:
            started = await self._host.plugins.lifecycle.enable(name, tenant=context.tenant, by=context.principal.id)
        except NeedsConsent:
            problem = Problem("", "It asks for more than was granted", "Enable it on its own page, where you see what")
            return await self._render_form(request, problem, 403)
        except PaddockError as error:
            problem = error.as_problem()
            return await self._render_form(request, problem, http_status(error))
        return redirect_with_flash(plugin_path(started["name"], "activate"), "activated")

    async def deactivate(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        disabled = await self._host.plugins.lifecycle.disable(name, context.tenant, by=context.principal.id)
        return redirect_with_flash(plugin_path(disabled["name"], "activate"), "deactivated")

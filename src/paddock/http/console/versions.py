"""A plugin's versions: which are here, going back to one, holding it at one, and taking it away."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import Conflict, NeedsConsent, PaddockError, Problem
from paddock.core.outward import http_status
from paddock.host.host import Host
from paddock.host.people_only import require_person
from paddock.http.acting import context_of
from paddock.http.auth import caller_of
from paddock.http.console.form_body import form_of
from paddock.http.console.install_words import NOT_ALL, asked_by, parts_of
from paddock.http.console.page import Page, done, page, plugin_page
from paddock.http.console.plugin_words import trust_of
from paddock.http.endpoint import HOST, OPERATOR, named
from paddock.http.granted import granted_in
from paddock.plugins.history import History


class VersionPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/versions", self.shown, OPERATOR),
            Page("POST", "/plugins/{name}/versions/pin", self.pin, HOST),
            Page("GET", "/plugins/{name}/versions/rollback", self.ask_rollback, HOST),
            Page("POST", "/plugins/{name}/versions/rollback", self.roll_back, HOST),
            Page("POST", "/plugins/{name}/versions/remove", self.remove, HOST),
            Page("GET", "/plugins/{name}/uninstall", self.ask_uninstall, HOST),
            Page("POST", "/plugins/{name}/uninstall", self.uninstall, HOST),
        ]

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(self, request: Request, problem: PaddockError | None = None) -> Response:
        history = await self._host.versions.history(named(request))
        may = HOST.lets(caller_of(request))
        values: dict[str, Any] = {"history": history, "may": may, "problem": problem}
        values["recorded"] = history.can_be_fetched_from
        values["versions"] = [
            {
                "one": one,
                # What lies where on this machine is no business of other tenants.
                "source": one.source if may else one.source.partition(" /")[0],
                "trust": trust_of(f"{one.standing.state.value}: {one.standing.words}"),
                "more": asked_by(one.more),
                "less": asked_by(one.less),
            }
            for one in history.versions
        ]
        return page(request, "plugin_versions.html", values, 200 if problem is None else http_status(problem))

    async def pin(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        wanted = sent.one("version") or None
        try:
            row = await self._host.versions.pin(named(request), wanted, context.principal.id)
        except NeedsConsent:
            # Going back to it asks for what is missing; then it can be pinned.
            return RedirectResponse(f"{plugin_page(named(request), 'versions/rollback')}?to={quote(wanted or '')}", 303)
        except PaddockError as refused:
            return await self._page(request, refused)
        return done(plugin_page(row.name, "versions"), "pinned" if wanted else "unpinned")

    # --- going back ---------------------------------------------------------------------------------------------------

    async def ask_rollback(self, request: Request) -> Response:
        return await self._asked(request, request.query_params.get("to") or None)

    async def _asked(
        self,
        request: Request,
        version: str | None,
        missing: str = "",
        *,
        given: tuple[str, ...] = (),
        status: int = 200,
    ) -> Response:
        try:
            way = await self._host.versions.way_back(named(request), version)
        except PaddockError as refused:
            return await self._page(request, refused)
        values: dict[str, Any] = {"way": way, "given": given, "missing": missing}
        values |= {"parts": parts_of(way.screen, way.new), "capabilities": asked_by(way.new)}
        return page(request, "plugin_rollback.html", values, status)

    async def roll_back(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        version, given = sent.one("to") or None, tuple(sent.texts.get("grant", ()))
        try:
            await self._host.versions.rollback(
                named(request),
                version,
                granted_in({"grant": list(given)}),
                context.principal.id,
                leaving=sent.one("from") or None,
            )
        except NeedsConsent as needed:
            return await self._asked(request, version, NOT_ALL, given=given, status=http_status(needed))
        except Conflict as moved:
            if moved.error_code != "plugin.changed_meanwhile":
                return await self._page(request, moved)
            missing = "It changed while you were deciding. This is what going back means now."
            return await self._asked(request, version, missing, status=http_status(moved))
        except PaddockError as refused:
            return await self._page(request, refused)
        return done(plugin_page(named(request)), "rolled_back")

    # --- taking it away -----------------------------------------------------------------------------------------------

    async def remove(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        try:
            by = require_person(context.principal).id
            await self._host.uninstalling.uninstall_version(named(request), sent.one("version"), by)
        except PaddockError as refused:
            return await self._page(request, refused)
        return done(plugin_page(named(request), "versions"), "version_removed")

    async def ask_uninstall(self, request: Request) -> Response:
        return self._uninstall_form(request, await self._host.versions.history(named(request)))

    def _uninstall_form(
        self, request: Request, history: History, *, typed: str = "", problem: Problem | None = None
    ) -> Response:
        values = {"history": history, "typed": typed, "problem": problem}
        return page(request, "plugin_uninstall.html", values, 200 if problem is None else 422)

    async def uninstall(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        history, typed = await self._host.versions.history(named(request)), sent.one("confirm").strip()
        if typed != history.plugin.name:
            wrong = Problem("confirm", "That is not its name", f"Type {history.plugin.name} to remove it")
            return self._uninstall_form(request, history, typed=typed, problem=wrong)
        removed = await self._host.uninstalling.uninstall(history.plugin.name, require_person(context.principal).id)
        return done("/plugins", "uninstalled_leaving" if removed.leaving else "uninstalled")

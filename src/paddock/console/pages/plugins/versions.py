"""The versions page of a plugin: list, pin, roll back, remove versions, and uninstall."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, plugin_path, redirect_with_flash, render_page
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.console.text.install_text import CONSENT_INCOMPLETE, capability_consents, consent_sections
from paddock.console.text.plugin_text import trust_text
from paddock.core.error_formats import http_status
from paddock.core.errors import Conflict, NeedsConsent, PaddockError, Problem
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.plugins.manage.version_history import VersionHistory
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_own_grants
from paddock.web.routing.route import HOST, OPERATOR, path_param
from paddock.web.security.authenticate import caller_of


class VersionPages:
    """Pins, rolls back and removes versions of a plugin."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/versions", self.show, OPERATOR),
            Page("POST", "/plugins/{name}/versions/pin", self.pin, HOST),
            Page("GET", "/plugins/{name}/versions/rollback", self.confirm_rollback, HOST),
            Page("POST", "/plugins/{name}/versions/rollback", self.roll_back, HOST),
            Page("POST", "/plugins/{name}/versions/remove", self.remove_version, HOST),
            Page("GET", "/plugins/{name}/uninstall", self.confirm_uninstall, HOST),
            Page("POST", "/plugins/{name}/uninstall", self.uninstall, HOST),
        ]

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, problem: PaddockError | None = None) -> Response:
        history = await self._host.plugins.versions.history(path_param(request))
        operates_host = HOST.allows(caller_of(request))
        values: dict[str, Any] = {"header": await load_header(self._host, request)}
        values |= {"history": history, "may": operates_host, "problem": problem}
        values["recorded"] = history.update_source
        values["versions"] = [
            {
                "one": version,
                # Other tenants must not learn paths of this machine.
                "source": version.source if operates_host else version.source.partition(" /")[0],
                "trust": trust_text(f"{version.standing.state.value}: {version.standing.description}"),
                "more": capability_consents(version.more),
                "less": capability_consents(version.less),
            }
            for version in history.versions
        ]
        return render_page(
            request, "plugins/install/plugin_versions.html", values, 200 if problem is None else http_status(problem)
        )

    async def pin(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        version, versions = form.last_text("version"), self._host.plugins.versions
        name, by = path_param(request), context.principal.id
        try:
            plugin = await (versions.pin(name, version, by) if version else versions.unpin(name, by))
        except NeedsConsent:
            # The rollback page asks for the missing consent; then it can be pinned.
            return RedirectResponse(f"{plugin_path(path_param(request), 'versions/rollback')}?to={quote(version)}", 303)
        except PaddockError as error:
            return await self._render(request, error)
        return redirect_with_flash(plugin_path(plugin.name, "versions"), "pinned" if version else "unpinned")

    # --- going back ---------------------------------------------------------------------------------------------------

    async def confirm_rollback(self, request: Request) -> Response:
        return await self._render_rollback(request, request.query_params.get("to") or None)

    async def _render_rollback(
        self,
        request: Request,
        version: str | None,
        missing: str = "",
        *,
        grants: tuple[str, ...] = (),
        status: int = 200,
    ) -> Response:
        try:
            preview = await self._host.plugins.versions.preview_rollback(path_param(request), version)
        except PaddockError as error:
            return await self._render(request, error)
        values: dict[str, Any] = {
            "header": await load_header(self._host, request),
            "way": preview,
            "given": grants,
            "missing": missing,
        }
        values |= {
            "parts": consent_sections(preview.screen, ticked=preview.new),
            "capabilities": capability_consents(preview.new),
        }
        return render_page(request, "plugins/install/plugin_rollback.html", values, status)

    async def roll_back(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        version, grants = form.last_text("to") or None, tuple(form.texts.get("grant", ()))
        try:
            await self._host.plugins.versions.rollback(
                path_param(request),
                version,
                parse_own_grants({"grant": list(grants)}, context.principal),
                context.principal.id,
                leaving=form.last_text("from") or None,
            )
        except NeedsConsent as consent_error:
            return await self._render_rollback(
                request, version, CONSENT_INCOMPLETE, grants=grants, status=http_status(consent_error)
            )
        except Conflict as conflict:
            if conflict.error_code != "plugin.changed_meanwhile":
                return await self._render(request, conflict)
            missing = "It changed while you were deciding. This is what going back means now."
            return await self._render_rollback(request, version, missing, status=http_status(conflict))
        except PaddockError as error:
            return await self._render(request, error)
        return redirect_with_flash(plugin_path(path_param(request)), "rolled_back")

    # --- taking it away -----------------------------------------------------------------------------------------------

    async def remove_version(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        try:
            person_id = require_interactive_person(context.principal).id
            await self._host.plugins.uninstaller.uninstall_version(
                path_param(request), form.last_text("version"), person_id
            )
        except PaddockError as error:
            return await self._render(request, error)
        return redirect_with_flash(plugin_path(path_param(request), "versions"), "version_removed")

    async def confirm_uninstall(self, request: Request) -> Response:
        return await self._render_uninstall(request, await self._host.plugins.versions.history(path_param(request)))

    async def _render_uninstall(
        self, request: Request, history: VersionHistory, *, typed: str = "", problem: Problem | None = None
    ) -> Response:
        values = {
            "header": await load_header(self._host, request),
            "history": history,
            "typed": typed,
            "problem": problem,
        }
        return render_page(request, "plugins/install/plugin_uninstall.html", values, 200 if problem is None else 422)

    async def uninstall(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        history, typed = (
            await self._host.plugins.versions.history(path_param(request)),
            form.last_text("confirm").strip(),
        )
        if typed != history.plugin.name:
            problem = Problem("confirm", "That is not its name", f"Type {history.plugin.name} to remove it")
            return await self._render_uninstall(request, history, typed=typed, problem=problem)
        removed = await self._host.plugins.uninstaller.uninstall(
            history.plugin.name, require_interactive_person(context.principal).id, force=True
        )
        return redirect_with_flash("/plugins", "uninstalled_leaving" if removed.purge_pending else "uninstalled")

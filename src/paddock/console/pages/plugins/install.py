"""Installing and upgrading: naming a package, following how it is fetched, reading what it may do, and saying yes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.console.pages.plugins.install_form import INSTALL_FIELDS, parse_install_form, typed_values
from paddock.console.pages.plugins.upload import PackageUpload, receive_package
from paddock.console.templates import StreamEnd, render_fragment
from paddock.console.text.install_text import CONSENT_INCOMPLETE, install_values
from paddock.core.error_mapping import http_status
from paddock.core.errors import Busy, CallerError, Conflict, Invalid, NeedsConsent, Problem
from paddock.host.host import Host
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.install_job import InstallConsent, InstallJob, InstallStage, InstallStopReason
from paddock.plugins.examples import Example, list_examples
from paddock.plugins.install.plan import PlanAction
from paddock.plugins.install.request import InstallRequest
from paddock.plugins.package.upload import UploadedFile, open_upload
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_grants
from paddock.web.routing.route import HOST, path_param
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, Encodable, event_stream

NAVIGATION_PATH: Final = "/plugins"  # what the navigation shows these pages under
_INSTALL_WAIT_S: Final = 5.0  # seconds in which most packages are installed, so that nobody has to follow them
_FETCH_WAIT_S: Final = 0.7  # and fetched, where they lie on this machine


class InstallPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    @property
    def _installs(self) -> InstallService:
        return self._host.install_service

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/install", self.show_form, HOST),
            Page("POST", "/install", self.start, HOST),
            Page("POST", "/install/upload", self.upload, HOST),
            Page("GET", "/install/{id}", self.show, HOST),
            Page("GET", "/install/{id}/progress", self.stream, HOST),
            Page("POST", "/install/{id}", self.consent, HOST),
            Page("POST", "/install/{id}/cancel", self.cancel, HOST),
            Page("GET", "/plugins/{name}/upgrade", self.show_upgrade_form, HOST),
            Page("POST", "/plugins/{name}/upgrade", self.start, HOST),
            Page("POST", "/plugins/{name}/upgrade/upload", self.upload, HOST),
        ]

    # --- naming a package ---------------------------------------------------------------------------------------------

    async def show_form(self, request: Request) -> Response:
        typed = dict.fromkeys(INSTALL_FIELDS, "") | {"source": request.query_params.get("source", "")[:4_096]}
        return await self._render_form(request, typed)

    async def show_upgrade_form(self, request: Request) -> Response:
        return await self._render_form(request, dict.fromkeys(INSTALL_FIELDS, ""))

    async def _render_form(
        self,
        request: Request,
        typed: Mapping[str, str],
        problems: Mapping[str, Problem] | None = None,
        status: int = 200,
    ) -> Response:
        values: dict[str, Any] = {"typed": typed, "problems": problems or {}, "under_way": self._installs.active_jobs()}
        values |= {"here": NAVIGATION_PATH, "recorded": ""}
        name = request.path_params.get("name")
        if name is None:
            installed = {one["name"] for one in await self._host.plugins()}
            examples = [one for one in await asyncio.to_thread(list_examples) if one.name not in installed]
            values |= {"history": None, "examples": examples}
        else:
            history = await self._host.versions.history(path_param(request))
            values |= {"history": history, "examples": list[Example](), "recorded": history.update_source}
        return render_page(request, "install.html", values, status)

    async def start(self, request: Request) -> Response:
        sent = await read_form(request)
        typed, upgrade, recorded = typed_values(sent), None, None
        if "name" in request.path_params:
            history = await self._host.versions.history(path_param(request))
            upgrade, recorded = history.plugin.name, history.source
        found = await asyncio.to_thread(parse_install_form, typed, upgrade, recorded)
        if found.install_request is None:
            return await self._render_form(request, typed, found.problems, 422)
        try:
            return await self._start_job(request, found.install_request, found.description)
        except Busy as busy:
            return await self._render_form(request, typed, {"": busy.as_problem()}, http_status(busy))

    async def upload(self, request: Request) -> Response:
        """Take a package file. It is on disk when this begins to look at it."""
        typed, upgrade, brought = dict.fromkeys(INSTALL_FIELDS, ""), None, ExitStack()
        try:
            if "name" in request.path_params:
                upgrade = (await self._host.versions.history(path_param(request))).plugin.name
            self._installs.require_capacity()
            sent = await receive_package(request, self._open_upload, brought)
            typed["downgrade"] = sent.texts.get("downgrade", "")
            return await self._start_job(request, _upload_request(sent, upgrade), sent.recorded_as.describe(), brought)
        except (CallerError, Invalid) as refused:
            problem = refused.problems[0] if isinstance(refused, Invalid) else refused.as_problem()
            where = "" if isinstance(refused, Busy) else "package"
            status = 422 if isinstance(refused, Invalid) else http_status(refused)
            return await self._render_form(request, typed, {where: problem}, status)
        finally:
            await asyncio.to_thread(brought.close)  # what was not handed over

    def _open_upload(self, brought: ExitStack) -> UploadedFile:
        return brought.enter_context(open_upload(self._installs.staging))

    async def _start_job(
        self, request: Request, wanted: InstallRequest, what: str, brought: ExitStack | None = None
    ) -> Response:
        context = await call_context(self._host, request)
        self._installs.require_capacity()
        theirs = brought.pop_all() if brought is not None else None
        one = self._installs.start(wanted, what, context.principal.id, theirs)
        await _wait_past_stage(_FETCH_WAIT_S, one, InstallStage.FETCHING)
        return RedirectResponse(_job_path(one), 303)

    # --- following it, and deciding -----------------------------------------------------------------------------------

    async def show(self, request: Request) -> Response:
        one = self._installs.find(path_param(request, "id"))
        return _finished_redirect(one) or _render_job(request, one)

    async def stream(self, request: Request) -> Response:
        return event_stream(
            _fragments(self._installs.find(path_param(request, "id"))),
            self._closing,
            final_timeout_s=FINAL_EVENT_TIMEOUT_S,
        )

    async def consent(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        one = self._installs.find(path_param(request, "id"))
        given = sent.texts.get("grant", [])
        yes = InstallConsent(
            context.principal, frozenset(parse_grants({"grant": given})), bool(sent.last_text("less_trust"))
        )
        try:
            one.give_consent(yes)
        except NeedsConsent as needed:
            ticked = (*given, "less_trust") if yes.less_trust else tuple(given)
            return _render_job(request, one, ticked, CONSENT_INCOMPLETE, http_status(needed))
        except Conflict:
            return RedirectResponse(_job_path(one), 303)  # somebody else was faster: its page says what became of it
        await _wait_past_stage(_INSTALL_WAIT_S, one, InstallStage.CHANGING)
        return _finished_redirect(one) or RedirectResponse(_job_path(one), 303)

    async def cancel(self, request: Request) -> Response:
        one = self._installs.find(path_param(request, "id"))
        one.stop(InstallStopReason.CANCELLED)
        await _wait_past_stage(_INSTALL_WAIT_S, one, one.stage)
        return (
            redirect_with_flash("/plugins", "install_cancelled")
            if one.stage is InstallStage.GIVEN_UP
            else RedirectResponse(_job_path(one), 303)
        )


def _render_job(
    request: Request, one: InstallJob, given: tuple[str, ...] = (), missing: str = "", status: int = 200
) -> Response:
    values = {**install_values(one), "given": given, "missing": missing, "here": NAVIGATION_PATH}
    return render_page(request, "installation.html", values, status)


def _upload_request(sent: PackageUpload, upgrade: str | None) -> InstallRequest:
    downgrade = bool(sent.texts.get("downgrade"))
    return InstallRequest(sent.source, upgrade=upgrade, downgrade=downgrade, recorded_as=sent.recorded_as)


def _job_path(one: InstallJob) -> str:
    return f"/install/{quote(one.id, safe='')}"


def _finished_redirect(one: InstallJob) -> Response | None:
    """The plugin's own page, which says what was done; None where its page has more to say."""
    outcome = one.outcome
    if one.stage is not InstallStage.DONE or outcome is None or outcome.change is PlanAction.NOTHING:
        return None
    at = f"/plugins/{quote(outcome.plugin, safe='')}"
    if outcome.change is PlanAction.INSTALL:
        return redirect_with_flash(at, "installed_unset" if outcome.unset else "installed")
    return redirect_with_flash(at, "upgraded" if outcome.change is PlanAction.UPGRADE else "signature_kept")


async def _wait_past_stage(seconds: float, one: InstallJob, stage: InstallStage) -> None:
    """Wait a moment for it to get past a stage: most do at once, and a page that changes right away is no help."""
    try:
        async with asyncio.timeout(seconds):
            async for now in one.watch():
                if now is not stage:
                    return
    except TimeoutError:
        pass


async def _fragments(one: InstallJob) -> AsyncGenerator[Encodable, None]:
    """The part of the page that changes, each time that it does; what a person reads then stays as it is."""
    async for stage in one.watch():
        yield render_fragment("installation_state.html", {**install_values(one), "given": (), "missing": ""})
        if stage is InstallStage.WAITING:
            break
    yield StreamEnd()

"""Pages for installing and upgrading plugins: choose a package, follow the download, review it, and consent."""

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
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.console.pages.plugins.upload import PackageUpload, receive_package
from paddock.console.templates import StreamEnd, render_fragment
from paddock.console.text.install_text import CONSENT_INCOMPLETE, install_values
from paddock.core.error_formats import http_status
from paddock.core.errors import Busy, CallerError, Conflict, Invalid, NeedsConsent, Problem
from paddock.host.host import Host
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.install_job import InstallJob, InstallStage, InstallStopReason
from paddock.plugins.examples import Example, list_examples
from paddock.plugins.install.consent import InstallConsent
from paddock.plugins.install.plan import PlanAction
from paddock.plugins.install.request import InstallRequest
from paddock.plugins.package.upload import UploadedFile, open_upload
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_grants
from paddock.web.routing.route import HOST, path_param
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, Encodable, event_stream

_INSTALL_WAIT_S: Final = 5.0  # most packages are installed by then, without a progress page
_FETCH_WAIT_S: Final = 0.7  # most local packages are fetched by then


class InstallPages:
    """Starts install jobs, shows their progress, and takes consent."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    @property
    def _installs(self) -> InstallService:
        return self._host.plugins.installer

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
        values |= {"recorded": ""}
        name = request.path_params.get("name")
        if name is None:
            installed = {item["name"] for item in await self._host.plugins.inventory.list_all()}
            examples = [item for item in await asyncio.to_thread(list_examples) if item.name not in installed]
            values |= {"history": None, "examples": examples}
        else:
            history = await self._host.plugins.versions.history(path_param(request))
            values |= {"header": await load_header(self._host, request)}
            values |= {"history": history, "examples": list[Example](), "recorded": history.update_source}
        return render_page(request, "plugins/install/install.html", values, status)

    async def start(self, request: Request) -> Response:
        form = await read_form(request)
        typed, upgrade, recorded = typed_values(form), None, None
        if "name" in request.path_params:
            history = await self._host.plugins.versions.history(path_param(request))
            upgrade, recorded = history.plugin.name, history.source
        parsed = await asyncio.to_thread(parse_install_form, typed, upgrade, recorded)
        if parsed.install_request is None:
            return await self._render_form(request, typed, parsed.problems, 422)
        try:
            return await self._start_job(request, parsed.install_request, parsed.description)
        except Busy as busy:
            return await self._render_form(request, typed, {"": busy.as_problem()}, http_status(busy))

    async def upload(self, request: Request) -> Response:
        """Receive a package file. It is completely on disk before it is inspected."""
        typed, upgrade, resources = dict.fromkeys(INSTALL_FIELDS, ""), None, ExitStack()
        try:
            if "name" in request.path_params:
                upgrade = (await self._host.plugins.versions.history(path_param(request))).plugin.name
            self._installs.require_capacity()
            package = await receive_package(request, self._open_upload, resources)
            typed["downgrade"] = package.texts.get("downgrade", "")
            return await self._start_job(
                request, _upload_request(package, upgrade), package.recorded_as.describe(), resources
            )
        except (CallerError, Invalid) as error:
            problem = error.problems[0] if isinstance(error, Invalid) else error.as_problem()
            field = "" if isinstance(error, Busy) else "package"
            status = 422 if isinstance(error, Invalid) else http_status(error)
            return await self._render_form(request, typed, {field: problem}, status)
        finally:
            await asyncio.to_thread(resources.close)  # unless handed over to the job

    def _open_upload(self, resources: ExitStack) -> UploadedFile:
        return resources.enter_context(open_upload(self._installs.staging))

    async def _start_job(
        self, request: Request, install_request: InstallRequest, description: str, resources: ExitStack | None = None
    ) -> Response:
        context = await call_context(self._host, request)
        self._installs.require_capacity()
        job_resources = resources.pop_all() if resources is not None else None
        job = self._installs.start(install_request, description, context.principal.id, job_resources)
        await _wait_past_stage(_FETCH_WAIT_S, job, InstallStage.FETCHING)
        return RedirectResponse(_job_path(job), 303)

    # --- following it, and deciding -----------------------------------------------------------------------------------

    async def show(self, request: Request) -> Response:
        job = self._installs.find(path_param(request, "id"))
        return _finished_redirect(job) or _render_job(request, job)

    async def stream(self, request: Request) -> Response:
        return event_stream(
            _fragments(self._installs.find(path_param(request, "id"))),
            self._closing,
            final_timeout_s=FINAL_EVENT_TIMEOUT_S,
        )

    async def consent(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        job = self._installs.find(path_param(request, "id"))
        grants, dangers = form.texts.get("grant", []), form.texts.get("danger", [])
        consent = InstallConsent(
            form.last_text("digest"),
            form.last_text("signature"),
            frozenset(parse_grants({"grant": grants})),
            form.last_text("trust_lost"),
            frozenset(parse_grants({"danger": dangers}, "danger")),
        )
        try:
            job.give_consent(context.principal, consent)
        except NeedsConsent as needed:
            given = (*grants, *(f"danger {one}" for one in dangers), consent.trust_lost)
            return _render_job(request, job, given, CONSENT_INCOMPLETE, http_status(needed))
        except Conflict:
            return RedirectResponse(_job_path(job), 303)  # decided by another operator meanwhile
        await _wait_past_stage(_INSTALL_WAIT_S, job, InstallStage.CHANGING)
        return _finished_redirect(job) or RedirectResponse(_job_path(job), 303)

    async def cancel(self, request: Request) -> Response:
        job = self._installs.find(path_param(request, "id"))
        job.stop(InstallStopReason.CANCELLED)
        await _wait_past_stage(_INSTALL_WAIT_S, job, job.stage)
        return (
            redirect_with_flash("/plugins", "install_cancelled")
            if job.stage is InstallStage.CANCELLED
            else RedirectResponse(_job_path(job), 303)
        )


def _render_job(
    request: Request, job: InstallJob, grants: tuple[str, ...] = (), missing: str = "", status: int = 200
) -> Response:
    values = {**install_values(job), "given": grants, "missing": missing}
    return render_page(request, "plugins/install/installation.html", values, status)


def _upload_request(package: PackageUpload, upgrade: str | None) -> InstallRequest:
    downgrade = bool(package.texts.get("downgrade"))
    return InstallRequest(package.source, upgrade=upgrade, downgrade=downgrade, recorded_as=package.recorded_as)


def _job_path(job: InstallJob) -> str:
    return f"/install/{quote(job.id, safe='')}"


def _finished_redirect(job: InstallJob) -> Response | None:
    """Redirect to the plugin's page after a change; None if the job's own page has more to show."""
    outcome = job.outcome
    if job.stage is not InstallStage.DONE or outcome is None or outcome.change is PlanAction.NOTHING:
        return None
    plugin_url = f"/plugins/{quote(outcome.plugin, safe='')}"
    if outcome.change is PlanAction.INSTALL:
        return redirect_with_flash(plugin_url, "installed_unset" if outcome.unset else "installed")
    return redirect_with_flash(plugin_url, "upgraded" if outcome.change is PlanAction.UPGRADE else "signature_kept")


async def _wait_past_stage(timeout_s: float, job: InstallJob, stage: InstallStage) -> None:
    """Wait briefly for a job to leave a stage: most do at once, which avoids a page that changes right away."""
    try:
        async with asyncio.timeout(timeout_s):
            async for current in job.watch():
                if current is not stage:
                    return
    except TimeoutError:
        pass


async def _fragments(job: InstallJob) -> AsyncGenerator[Encodable, None]:
    """Yield the live part of the page on each change, until a person has to decide."""
    async for stage in job.watch():
        yield render_fragment(
            "plugins/install/installation_state.html", {**install_values(job), "given": (), "missing": ""}
        )
        if stage is InstallStage.WAITING:
            break
    yield StreamEnd()

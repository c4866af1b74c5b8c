"""The page on which a person tries a plugin: follow the trial, tick the grants that it needs, and try it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, plugin_path, render_page
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.console.pages.plugins.trust import parse_shown_tools
from paddock.console.templates import StreamEnd, render_fragment
from paddock.console.text.trial_text import trial_values
from paddock.core.error_formats import http_status
from paddock.core.errors import Busy, NotFound
from paddock.core.ids import PluginName
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.learn.trial_job import TrialChoice, TrialJob
from paddock.manifest.capability import Capability, FileAccess
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_own_grants
from paddock.web.routing.route import HOST, path_param
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, Encodable, event_stream

_TRIAL_WAIT_S: Final = 1.0  # some plugins answer by then, without a progress page


class TrialPages:
    """Tries plugins. Their cages are on this machine, so that only operators of the host may."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/try", self.show, HOST),
            Page("POST", "/plugins/{name}/try", self.start, HOST),
            Page("POST", "/plugins/{name}/try/cancel", self.cancel, HOST),
            Page("GET", "/plugins/{name}/try/progress", self.stream, HOST),
        ]

    async def show(self, request: Request) -> Response:
        plugin, job = await self._find(request)
        return await self._render(request, plugin, job)

    async def start(self, request: Request) -> Response:
        """Try it with the ticked grants. They are stored once it answers with them."""
        context, form = await call_context(self._host, request), await read_form(request)
        person = require_interactive_person(context.principal)
        plugin, previous = await self._find(request)
        choice = TrialChoice(
            tuple(_ticked_grants(form, parse_own_grants({"grant": form.texts.get("grant", [])}, person))),
            dict(parse_shown_tools(form.texts.get("tool", ()))) if form.last_text("trust_reads") else {},
        )
        try:
            job = self._host.plugins.trials.start(plugin, choice, person, context.tenant)
        except Busy as busy:
            return await self._render(request, plugin, previous, busy, http_status(busy))
        await _wait_finished(job)
        return RedirectResponse(plugin_path(plugin, "try"), 303)

    async def cancel(self, request: Request) -> Response:
        """Cancel the trial. It may have ended meanwhile."""
        context = await call_context(self._host, request)
        require_interactive_person(context.principal)
        plugin, job = await self._find(request)
        with suppress(NotFound):
            self._host.plugins.learning.cancel(plugin, context.tenant)
        if job is not None:
            await _wait_finished(job)
        return RedirectResponse(plugin_path(plugin, "try"), 303)

    async def stream(self, request: Request) -> Response:
        plugin, job = await self._find(request)
        return event_stream(_fragments(plugin, job), self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S)

    async def _find(self, request: Request) -> tuple[PluginName, TrialJob | None]:
        """Return the plugin's own name and its last trial.

        Raises:
            NotFound: it is not installed.
        """
        context = await call_context(self._host, request)
        plugin = PluginName((await self._host.plugins.inventory.show(path_param(request), context.tenant))["name"])
        return plugin, self._host.plugins.trials.find(plugin, context.tenant)

    async def _render(
        self, request: Request, plugin: str, job: TrialJob | None, busy: Busy | None = None, status: int = 200
    ) -> Response:
        values: dict[str, Any] = {
            **trial_values(plugin, job),
            "header": await load_header(self._host, request),
            "busy": busy,
        }
        return render_page(request, "plugins/trial.html", values, status)


def _ticked_grants(form: SubmittedForm, grants: Iterable[Capability]) -> Iterable[Capability]:
    """Yield the ticked grants; for writing where that is ticked too."""
    writable = set(form.texts.get("write", ()))
    for grant in grants:
        if isinstance(grant, FileAccess) and grant.mode == "read" and str(grant) in writable:
            yield FileAccess("write", grant.path, grant.root)
        else:
            yield grant


async def _wait_finished(job: TrialJob) -> None:
    try:
        async with asyncio.timeout(_TRIAL_WAIT_S):
            async for _ in job.watch():
                pass
    except TimeoutError:
        pass


async def _fragments(plugin: str, job: TrialJob | None) -> AsyncGenerator[Encodable, None]:
    """Yield the live part of the page on each change."""
    if job is not None:
        async for _ in job.watch():
            yield render_fragment("plugins/trial_state.html", trial_values(plugin, job))
    yield StreamEnd()

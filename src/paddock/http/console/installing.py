"""Installing and upgrading: naming a package, following how it is fetched, reading what it may do, and saying yes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import Busy, CallerError, Conflict, Invalid, NeedsConsent, Problem
from paddock.core.outward import http_status
from paddock.host.host import Host
from paddock.host.installation import Consent, GaveUp, Installation, Stage
from paddock.host.installing import Installing
from paddock.http.acting import context_of
from paddock.http.console.form_body import form_of
from paddock.http.console.install_form import FIELDS, read, typed_in
from paddock.http.console.install_words import NOT_ALL, told_of
from paddock.http.console.live_part import Over, part
from paddock.http.console.package_upload import Uploaded, uploaded
from paddock.http.console.page import Page, done, page
from paddock.http.endpoint import HOST, named
from paddock.http.granted import granted_in
from paddock.http.live import LAST_WORDS, Tellable, event_stream
from paddock.plugins.arriving import ArrivingFile, arriving_file
from paddock.plugins.examples import Example, examples_here
from paddock.plugins.proposal import Change
from paddock.plugins.wanted import Wanted

HERE: Final = "/plugins"  # what the navigation shows these pages under
_AT_ONCE: Final = 5.0  # seconds in which most packages are installed, so that nobody has to follow them
_FETCHED_AT_ONCE: Final = 0.7  # and fetched, where they lie on this machine


class InstallPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    @property
    def _installing(self) -> Installing:
        return self._host.installing

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/install", self.ask, HOST),
            Page("POST", "/install", self.begin, HOST),
            Page("POST", "/install/upload", self.upload, HOST),
            Page("GET", "/install/{id}", self.shown, HOST),
            Page("GET", "/install/{id}/progress", self.progress, HOST),
            Page("POST", "/install/{id}", self.agree, HOST),
            Page("POST", "/install/{id}/cancel", self.cancel, HOST),
            Page("GET", "/plugins/{name}/upgrade", self.ask_upgrade, HOST),
            Page("POST", "/plugins/{name}/upgrade", self.begin, HOST),
            Page("POST", "/plugins/{name}/upgrade/upload", self.upload, HOST),
        ]

    # --- naming a package ---------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        typed = dict.fromkeys(FIELDS, "") | {"source": request.query_params.get("source", "")[:4_096]}
        return await self._form(request, typed)

    async def ask_upgrade(self, request: Request) -> Response:
        return await self._form(request, dict.fromkeys(FIELDS, ""))

    async def _form(
        self,
        request: Request,
        typed: Mapping[str, str],
        problems: Mapping[str, Problem] | None = None,
        status: int = 200,
    ) -> Response:
        values: dict[str, Any] = {"typed": typed, "problems": problems or {}, "under_way": self._installing.under_way()}
        values |= {"here": HERE, "recorded": ""}
        name = request.path_params.get("name")
        if name is None:
            installed = {one["name"] for one in await self._host.plugins()}
            examples = [one for one in await asyncio.to_thread(examples_here) if one.name not in installed]
            values |= {"history": None, "examples": examples}
        else:
            history = await self._host.versions.history(named(request))
            values |= {"history": history, "examples": list[Example](), "recorded": history.can_be_fetched_from}
        return page(request, "install.html", values, status)

    async def begin(self, request: Request) -> Response:
        sent = await form_of(request)
        typed, upgrade, recorded = typed_in(sent), None, None
        if "name" in request.path_params:
            history = await self._host.versions.history(named(request))
            upgrade, recorded = history.plugin.name, history.source
        found = await asyncio.to_thread(read, typed, upgrade, recorded)
        if found.wanted is None:
            return await self._form(request, typed, found.problems, 422)
        try:
            return await self._begun(request, found.wanted, found.what)
        except Busy as busy:
            return await self._form(request, typed, {"": busy.as_problem()}, http_status(busy))

    async def upload(self, request: Request) -> Response:
        """Take a package file. It is on disk when this begins to look at it."""
        typed, upgrade, brought = dict.fromkeys(FIELDS, ""), None, ExitStack()
        try:
            if "name" in request.path_params:
                upgrade = (await self._host.versions.history(named(request))).plugin.name
            self._installing.require_room()
            sent = await uploaded(request, self._arriving, brought)
            typed["downgrade"] = sent.texts.get("downgrade", "")
            return await self._begun(request, _wanted(sent, upgrade), sent.recorded_as.describe(), brought)
        except (CallerError, Invalid) as refused:
            problem = refused.problems[0] if isinstance(refused, Invalid) else refused.as_problem()
            where = "" if isinstance(refused, Busy) else "package"
            status = 422 if isinstance(refused, Invalid) else http_status(refused)
            return await self._form(request, typed, {where: problem}, status)
        finally:
            await asyncio.to_thread(brought.close)  # what was not handed over

    def _arriving(self, brought: ExitStack) -> ArrivingFile:
        return brought.enter_context(arriving_file(self._installing.staging))

    async def _begun(self, request: Request, wanted: Wanted, what: str, brought: ExitStack | None = None) -> Response:
        context = await context_of(self._host, request)
        self._installing.require_room()
        theirs = brought.pop_all() if brought is not None else None
        one = self._installing.begin(wanted, what, context.principal.id, theirs)
        await _within(_FETCHED_AT_ONCE, one, Stage.FETCHING)
        return RedirectResponse(_at(one), 303)

    # --- following it, and deciding -----------------------------------------------------------------------------------

    async def shown(self, request: Request) -> Response:
        one = self._installing.find(named(request, "id"))
        return _finished(one) or _page(request, one)

    async def progress(self, request: Request) -> Response:
        return event_stream(_changes(self._installing.find(named(request, "id"))), self._closing, last_words=LAST_WORDS)

    async def agree(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        one = self._installing.find(named(request, "id"))
        given = sent.texts.get("grant", [])
        yes = Consent(context.principal, frozenset(granted_in({"grant": given})), bool(sent.one("less_trust")))
        try:
            one.agree(yes)
        except NeedsConsent as needed:
            ticked = (*given, "less_trust") if yes.less_trust else tuple(given)
            return _page(request, one, ticked, NOT_ALL, http_status(needed))
        except Conflict:
            return RedirectResponse(_at(one), 303)  # somebody else was faster: its page says what became of it
        await _within(_AT_ONCE, one, Stage.CHANGING)
        return _finished(one) or RedirectResponse(_at(one), 303)

    async def cancel(self, request: Request) -> Response:
        one = self._installing.find(named(request, "id"))
        one.stop(GaveUp.CANCELLED)
        await _within(_AT_ONCE, one, one.stage)
        return done("/plugins", "install_cancelled") if one.stage is Stage.GIVEN_UP else RedirectResponse(_at(one), 303)


def _page(
    request: Request, one: Installation, given: tuple[str, ...] = (), missing: str = "", status: int = 200
) -> Response:
    values = {**told_of(one), "given": given, "missing": missing, "here": HERE}
    return page(request, "installation.html", values, status)


def _wanted(sent: Uploaded, upgrade: str | None) -> Wanted:
    downgrade = bool(sent.texts.get("downgrade"))
    return Wanted(sent.source, upgrade=upgrade, downgrade=downgrade, recorded_as=sent.recorded_as)


def _at(one: Installation) -> str:
    return f"/install/{quote(one.id, safe='')}"


def _finished(one: Installation) -> Response | None:
    """The plugin's own page, which says what was done; None where its page has more to say."""
    outcome = one.outcome
    if one.stage is not Stage.DONE or outcome is None or outcome.change is Change.NOTHING:
        return None
    at = f"/plugins/{quote(outcome.plugin, safe='')}"
    if outcome.change is Change.INSTALL:
        return done(at, "installed_unset" if outcome.unset else "installed")
    return done(at, "upgraded" if outcome.change is Change.UPGRADE else "signature_kept")


async def _within(seconds: float, one: Installation, stage: Stage) -> None:
    """Wait a moment for it to get past a stage: most do at once, and a page that changes right away is no help."""
    try:
        async with asyncio.timeout(seconds):
            async for now in one.changes():
                if now is not stage:
                    return
    except TimeoutError:
        pass


async def _changes(one: Installation) -> AsyncGenerator[Tellable, None]:
    """The part of the page that changes, each time that it does; what a person reads then stays as it is."""
    async for stage in one.changes():
        yield part("installation_state.html", {**told_of(one), "given": (), "missing": ""})
        if stage is Stage.WAITING:
            break
    yield Over()

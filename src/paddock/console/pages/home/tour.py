"""The guided tour: each person's progress, shown on every page, and hiding or showing it.

Progress is kept in memory: actions are read from the ledger again after a restart, and views are quickly repeated.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.page import TOUR_STATE_KEY, Page, page_names, redirect_with_flash
from paddock.console.pages.home.tour_steps import (
    Tour,
    TourFacts,
    TourTargets,
    apply_entries,
    apply_viewed_call,
    build_steps,
    mark_plugin_read,
    was_denied,
)
from paddock.console.text.principal_text import principal_name
from paddock.core.errors import NotFound
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.host import Host
from paddock.ledger.read.entries import EntryFilter
from paddock.web.routing.route import HOST, PUBLIC
from paddock.web.security.authenticate import caller_of

_MAX_REMEMBERED: Final = 1_000  # ledger entries per page view, and people with progress
_MAX_FAILURES_SCANNED: Final = 50  # searched for a denied call
_PLUGIN_ROUTE, _CALL_ROUTE = "/plugins/{name}", "/calls/{id}"


class _TourProgress(Struct, frozen=True):
    """The progress of one person: known facts up to a ledger position."""

    last_seq: int
    facts: TourFacts = field(default_factory=TourFacts)
    hidden: bool = False


class TourGuide:
    """Guides operators of the host, if the setting `console.tour` is on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._progress: OrderedDict[tuple[Tenant, PrincipalId], _TourProgress] = OrderedDict()

    def routes(self) -> list[Page]:
        return [Page("POST", "/tour/hide", self.hide, HOST), Page("POST", "/tour/show", self.show, HOST)]

    async def hide(self, request: Request) -> Response:
        await self._set_hidden(request, hidden=True)
        return redirect_with_flash("/", "tour_hidden")

    async def show(self, request: Request) -> Response:
        await self._set_hidden(request, hidden=False)
        return RedirectResponse("/", 303)

    def with_tour(self, page: Page) -> Page:
        """Wrap a page so that it shows the tour, and so that viewing it can complete a step."""
        if page.method != "GET" or page.access is PUBLIC:
            return page

        async def show_with_tour(request: Request) -> Response:
            if self._host.settings.console.tour and HOST.allows(caller_of(request)):
                request.scope["state"][TOUR_STATE_KEY] = await self._build_tour(request, page.path)
            return await page.show(request)

        return replace(page, show=show_with_tour)

    async def _build_tour(self, request: Request, path: str) -> Tour:
        progress = await self._load_progress(request)
        targets = TourTargets() if progress.hidden else await self._find_targets(request, progress.facts)
        steps_before = build_steps(progress.facts, targets)
        current_step = next(
            (step for step in steps_before if not step.done and step.covers_path(request.scope["path"])), None
        )
        facts = await self._record_view(request, path, progress.facts)
        if facts != progress.facts:
            self._store(request, replace(progress, facts=facts))
        return Tour(build_steps(facts, targets), current_step, progress.hidden, request.scope["path"])

    async def _load_progress(self, request: Request) -> _TourProgress:
        """Return a person's progress, updated with their ledger entries since their first sign-in here."""
        principal = caller_of(request).principal
        progress = self._progress.get((principal.tenant, principal.id))
        if progress is None:
            first = await self._host.ledger.reader.page(
                principal.tenant, EntryFilter(type="session.opened", principal=principal.id), after=0, limit=1
            )
            progress = _TourProgress(first[0].seq if first else 0)
        entries = await self._host.ledger.reader.page(
            principal.tenant, EntryFilter(principal=principal.id), after=progress.last_seq, limit=_MAX_REMEMBERED
        )  # newest first
        if entries:
            facts = apply_entries(progress.facts, reversed(entries))
            progress = replace(progress, last_seq=entries[0].seq, facts=facts)
        self._store(request, progress)
        return progress

    async def _record_view(self, request: Request, path: str, facts: TourFacts) -> TourFacts:
        if path == _PLUGIN_ROUTE:
            return mark_plugin_read(facts)
        if path != _CALL_ROUTE or (facts.saw_denied and facts.followed):
            return facts
        call = request.path_params["id"]
        try:
            entries, _ = await self._host.ledger.reader.entries_by_id(caller_of(request).principal.tenant, call)
        except NotFound:
            return facts  # the page itself reports it
        return apply_viewed_call(facts, call, entries)

    async def _find_targets(self, request: Request, facts: TourFacts) -> TourTargets:
        """Find what the remaining steps lead to."""
        principal = caller_of(request).principal
        denied = waiting = None
        if not facts.saw_denied:
            failures = await self._host.ledger.reader.page(
                principal.tenant, EntryFilter(type="call.ended", wrong=True), limit=_MAX_FAILURES_SCANNED
            )
            denied = next((entry.call for entry in failures if was_denied(entry)), None)
        if facts.answered is None:
            waiting = next(
                iter(await self._host.approvals.list_requests(principal.tenant, limit=1, to=principal)), None
            )
        if waiting is None:
            return TourTargets(denied)
        asks = principal_name(waiting["for_person"] or waiting["requester"], page_names(request.scope))
        return TourTargets(denied, waiting["id"], asks)

    async def _set_hidden(self, request: Request, *, hidden: bool) -> None:
        if not self._host.settings.console.tour:
            raise NotFound("this host has no tour", code="http.no_route")
        self._store(request, replace(await self._load_progress(request), hidden=hidden))

    def _store(self, request: Request, progress: _TourProgress) -> None:
        principal = caller_of(request).principal
        self._progress[principal.tenant, principal.id] = progress
        self._progress.move_to_end((principal.tenant, principal.id))
        while len(self._progress) > _MAX_REMEMBERED:
            self._progress.popitem(last=False)

"""Showing somebody around: how far each person is, on every page, and putting the tour away and back.

Kept in memory: what was done is in the ledger and read again after a restart, and the rest is quickly looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.page import TOUR_STATE_KEY, Page, redirect_with_flash
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
from paddock.core.errors import NotFound
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.host import Host
from paddock.ledger.read.entries import EntryFilter
from paddock.web.routing.route import ANYBODY, HOST
from paddock.web.security.authenticate import caller_of

_MAX_REMEMBERED: Final = 1_000  # entries that are read for one page, and people who are remembered
_MAX_FAILURES_SCANNED: Final = 50  # things that went wrong, for one that was denied
_PLUGIN, _STORY = "/plugins/{name}", "/ledger/{id}"


@dataclass(frozen=True, slots=True)
class _TourProgress:
    """How far somebody is: up to which entry of the ledger it is known, and what."""

    last_seq: int
    facts: TourFacts = field(default_factory=TourFacts)
    hidden: bool = False


class TourGuide:
    """Guides operators of the host, where the setting `console.tour` says so."""

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

    def with_tour(self, row: Page) -> Page:
        """The same page for somebody who is shown around: the tour stands on it, and looking at it may be a step."""
        if row.method != "GET" or row.access is ANYBODY:
            return row

        async def shown(request: Request) -> Response:
            if self._host.settings.console.tour and HOST.allows(caller_of(request)):
                request.scope["state"][TOUR_STATE_KEY] = await self._build_tour(request, row.path)
            return await row.show(request)

        return replace(row, show=shown)

    async def _build_tour(self, request: Request, path: str) -> Tour:
        journey = await self._load_progress(request)
        around = TourTargets() if journey.hidden else await self._find_targets(request, journey.facts)
        before = build_steps(journey.facts, around)
        here = next((step for step in before if not step.done and step.covers_path(request.scope["path"])), None)
        looked = await self._record_view(request, path, journey.facts)
        if looked != journey.facts:
            self._store(request, replace(journey, facts=looked))
        return Tour(build_steps(looked, around), here, journey.hidden, request.scope["path"])

    async def _load_progress(self, request: Request) -> _TourProgress:
        """How far they are by now: what they did since they first signed in here is read on from where that ended."""
        by = caller_of(request).principal
        journey = self._progress.get((by.tenant, by.id))
        if journey is None:
            first = await self._host.ledger.page(
                by.tenant, EntryFilter(type="session.opened", principal=by.id), after=0, limit=1
            )
            journey = _TourProgress(first[0].seq if first else 0)
        entries = await self._host.ledger.page(
            by.tenant, EntryFilter(principal=by.id), after=journey.last_seq, limit=_MAX_REMEMBERED
        )  # the newest of them first
        if entries:
            facts = apply_entries(journey.facts, reversed(entries))
            journey = replace(journey, last_seq=entries[0].seq, facts=facts)
        self._store(request, journey)
        return journey

    async def _record_view(self, request: Request, path: str, facts: TourFacts) -> TourFacts:
        if path == _PLUGIN:
            return mark_plugin_read(facts)
        if path != _STORY or (facts.saw_denied and facts.followed):
            return facts
        call = request.path_params["id"]
        try:
            entries, _ = await self._host.ledger.entries_by_id(caller_of(request).principal.tenant, call)
        except NotFound:
            return facts  # as the page itself will say
        return apply_viewed_call(facts, call, entries)

    async def _find_targets(self, request: Request, facts: TourFacts) -> TourTargets:
        """Where the steps that are left lead to."""
        by = caller_of(request).principal
        denied = waiting = None
        if not facts.saw_denied:
            wrong = await self._host.ledger.page(
                by.tenant, EntryFilter(type="call.ended", wrong=True), limit=_MAX_FAILURES_SCANNED
            )
            denied = next((entry.call for entry in wrong if was_denied(entry)), None)
        if facts.answered is None:
            waiting = next(iter(await self._host.approvals.list_requests(by.tenant, limit=1, to=by)), None)
        if waiting is None:
            return TourTargets(denied)
        return TourTargets(denied, waiting["id"], waiting["for_person"] or waiting["requester"])

    async def _set_hidden(self, request: Request, *, hidden: bool) -> None:
        if not self._host.settings.console.tour:
            raise NotFound("this host shows nobody around", code="http.no_route")
        self._store(request, replace(await self._load_progress(request), hidden=hidden))

    def _store(self, request: Request, journey: _TourProgress) -> None:
        by = caller_of(request).principal
        self._progress[by.tenant, by.id] = journey
        self._progress.move_to_end((by.tenant, by.id))
        while len(self._progress) > _MAX_REMEMBERED:
            self._progress.popitem(last=False)

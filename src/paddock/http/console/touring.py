"""Showing somebody around: how far each person is, on every page, and putting the tour away and back.

Kept in memory: what was done is in the ledger and read again after a restart, and the rest is quickly looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import NotFound
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.host import Host
from paddock.http.auth import caller_of
from paddock.http.console.page import TOUR, Page, done
from paddock.http.console.tour import (
    Around,
    Facts,
    Tour,
    having_done,
    having_followed,
    having_read_a_plugin,
    steps,
    was_denied,
)
from paddock.http.endpoint import ANYBODY, HOST
from paddock.ledger.feed import Wanted

_MOST: Final = 1_000  # entries that are read for one page, and people who are remembered
_LOOKED_THROUGH: Final = 50  # things that went wrong, for one that was denied
_PLUGIN, _STORY = "/plugins/{name}", "/ledger/{id}"


@dataclass(frozen=True, slots=True)
class _Journey:
    """How far somebody is: up to which entry of the ledger it is known, and what."""

    upto: int
    facts: Facts = field(default_factory=Facts)
    hidden: bool = False


class Touring:
    """Guides operators of the host, where the setting `console.tour` says so."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._journeys: OrderedDict[tuple[Tenant, PrincipalId], _Journey] = OrderedDict()

    def rows(self) -> list[Page]:
        return [Page("POST", "/tour/hide", self.hide, HOST), Page("POST", "/tour/show", self.show, HOST)]

    async def hide(self, request: Request) -> Response:
        await self._put_away(request, hidden=True)
        return done("/", "tour_hidden")

    async def show(self, request: Request) -> Response:
        await self._put_away(request, hidden=False)
        return RedirectResponse("/", 303)

    def guided(self, row: Page) -> Page:
        """The same page for somebody who is shown around: the tour stands on it, and looking at it may be a step."""
        if row.method != "GET" or row.who is ANYBODY:
            return row

        async def shown(request: Request) -> Response:
            if self._host.settings.console.tour and HOST.lets(caller_of(request)):
                request.scope["state"][TOUR] = await self._tour(request, row.path)
            return await row.show(request)

        return replace(row, show=shown)

    async def _tour(self, request: Request, path: str) -> Tour:
        journey = await self._journey(request)
        around = Around() if journey.hidden else await self._around(request, journey.facts)
        before = steps(journey.facts, around)
        here = next((step for step in before if not step.done and step.is_at(request.scope["path"])), None)
        looked = await self._looked(request, path, journey.facts)
        if looked != journey.facts:
            self._keep(request, replace(journey, facts=looked))
        return Tour(steps(looked, around), here, journey.hidden, request.scope["path"])

    async def _journey(self, request: Request) -> _Journey:
        """How far they are by now: what they did since they first signed in here is read on from where that ended."""
        by = caller_of(request).principal
        journey = self._journeys.get((by.tenant, by.id))
        if journey is None:
            first = await self._host.ledger.page(
                by.tenant, Wanted(type="session.opened", principal=by.id), after=0, limit=1
            )
            journey = _Journey(first[0].seq if first else 0)
        entries = await self._host.ledger.page(
            by.tenant, Wanted(principal=by.id), after=journey.upto, limit=_MOST
        )  # the newest of them first
        if entries:
            facts = having_done(journey.facts, reversed(entries))
            journey = replace(journey, upto=entries[0].seq, facts=facts)
        self._keep(request, journey)
        return journey

    async def _looked(self, request: Request, path: str, facts: Facts) -> Facts:
        if path == _PLUGIN:
            return having_read_a_plugin(facts)
        if path != _STORY or (facts.saw_denied and facts.followed):
            return facts
        call = request.path_params["id"]
        try:
            entries, _ = await self._host.ledger.told_of(caller_of(request).principal.tenant, call)
        except NotFound:
            return facts  # as the page itself will say
        return having_followed(facts, call, entries)

    async def _around(self, request: Request, facts: Facts) -> Around:
        """Where the steps that are left lead to."""
        by = caller_of(request).principal
        denied = waiting = None
        if not facts.saw_denied:
            wrong = await self._host.ledger.page(
                by.tenant, Wanted(type="call.ended", wrong=True), limit=_LOOKED_THROUGH
            )
            denied = next((entry.call for entry in wrong if was_denied(entry)), None)
        if facts.answered is None:
            waiting = next(iter(await self._host.approving.listed(by.tenant, limit=1, to=by)), None)
        if waiting is None:
            return Around(denied)
        return Around(denied, waiting["id"], waiting["for_person"] or waiting["requester"])

    async def _put_away(self, request: Request, *, hidden: bool) -> None:
        if not self._host.settings.console.tour:
            raise NotFound("this host shows nobody around", code="http.no_route")
        self._keep(request, replace(await self._journey(request), hidden=hidden))

    def _keep(self, request: Request, journey: _Journey) -> None:
        by = caller_of(request).principal
        self._journeys[by.tenant, by.id] = journey
        self._journeys.move_to_end((by.tenant, by.id))
        while len(self._journeys) > _MOST:
            self._journeys.popitem(last=False)

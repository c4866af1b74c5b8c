"""The badge of the inbox on every page: how much needs the person who reads it, live."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.live_fragments import LiveFragments
from paddock.console.page import BADGE_STATE_KEY, Page
from paddock.console.templates import HtmlFragment, render_fragment
from paddock.console.tenant_changes import TenantChanges
from paddock.core.call import Principal
from paddock.core.errors import PaddockError
from paddock.core.single_flight import SingleFlight
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import PUBLIC
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream

BADGE_PATH: Final = "/inbox-badge"
_MIN_INTERVAL_S: Final = 1.0
_MAX_AGE_S: Final = 30.0  # of a count without an event: expiry and problems of the machine have none
_PAGE_MAX_AGE_S: Final = 0.3  # of the count that a new page begins with
_MAX_REMEMBERED: Final = 1_000  # people

_log = logging.getLogger("paddock.console")


class InboxBadges:
    """Counts what needs each person, once for all pages that they have open."""

    def __init__(self, host: Host, closing: asyncio.Event, changes: TenantChanges) -> None:
        self._host = host
        self._closing = closing
        self._counts: OrderedDict[Principal, tuple[float, int]] = OrderedDict()
        self._counting = SingleFlight[Principal, int](self._count)
        self._live = LiveFragments[Principal](
            self._render, changes, min_interval_s=_MIN_INTERVAL_S, max_age_s=_MAX_AGE_S
        )

    def routes(self) -> list[Page]:
        return [Page("GET", BADGE_PATH, self.stream)]

    def with_badge(self, page: Page) -> Page:
        """Wrap a page so that its navigation has the badge."""
        if page.method != "GET" or page.access is PUBLIC or page.path == BADGE_PATH:
            return page

        async def show_with_badge(request: Request) -> Response:
            principal = caller_of(request).principal
            began, total = self._counts.get(principal, (float("-inf"), 0))
            if began < time.monotonic() - _PAGE_MAX_AGE_S:
                total = await self._counting.run(principal)
            request.scope["state"][BADGE_STATE_KEY] = total
            return await page.show(request)

        return replace(page, show=show_with_badge)

    async def stream(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        return event_stream(self._live.follow(principal, principal.tenant), self._closing)

    async def _render(self, principal: Principal) -> HtmlFragment:
        return render_fragment("layout/inbox_badge.html", {"badge": await self._counting.run(principal)})

    async def _count(self, principal: Principal) -> int:
        began = time.monotonic()
        try:
            total = (await self._host.inbox.counts(principal)).total
        except PaddockError as error:
            _log.warning("the inbox of %s could not be counted: %s", principal.id, error.message)
            total = self._counts.get(principal, (0.0, 0))[1]
        self._counts[principal] = (began, total)
        self._counts.move_to_end(principal)
        while len(self._counts) > _MAX_REMEMBERED:
            self._counts.popitem(last=False)
        return total

"""The badge of the inbox on every page: how much needs the person who reads it, live.

All pages of a person share one count. Counting is paced, so that hundreds of open pages leave the host to its calls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.inbox_changes import InboxChanges
from paddock.console.page import BADGE_STATE_KEY, Page
from paddock.console.templates import HtmlFragment, render_fragment
from paddock.core.call import Principal
from paddock.core.errors import PaddockError
from paddock.core.single_flight import SingleFlight
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import PUBLIC
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream

BADGE_PATH: Final = "/inbox-badge"
_MIN_INTERVAL_S: Final = 1.0  # between two counts for one page
_MAX_AGE_S: Final = 30.0  # of a count without an event: expiry and problems of the machine have none
_PAGE_MAX_AGE_S: Final = 0.3  # of the count that a new page begins with
_REST_FACTOR: Final = 3  # a count is followed by a rest of so many times its own length
_MAX_REMEMBERED: Final = 1_000  # people

_log = logging.getLogger("paddock.console")


class InboxBadges:
    """Counts what needs each person, for the pages that they have open."""

    def __init__(self, host: Host, closing: asyncio.Event, changes: InboxChanges) -> None:
        self._host = host
        self._closing = closing
        self._changes = changes
        self._counts: OrderedDict[Principal, tuple[float, int]] = OrderedDict()
        self._counting = SingleFlight[Principal, int](self._count)
        self._one_at_a_time = asyncio.Semaphore(1)

    def routes(self) -> list[Page]:
        return [Page("GET", BADGE_PATH, self.stream)]

    def with_badge(self, page: Page) -> Page:
        """Wrap a page so that its navigation has the badge."""
        if page.method != "GET" or page.access is PUBLIC or page.path == BADGE_PATH:
            return page

        async def show_with_badge(request: Request) -> Response:
            principal = caller_of(request).principal
            request.scope["state"][BADGE_STATE_KEY] = await self._count_since(
                principal, time.monotonic() - _PAGE_MAX_AGE_S
            )
            return await page.show(request)

        return replace(page, show=show_with_badge)

    async def stream(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        return event_stream(self._badges(principal), self._closing)

    async def _badges(self, principal: Principal) -> AsyncGenerator[HtmlFragment, None]:
        """Yield the badge now, and whenever it has changed."""
        shown: int | None = None
        async with self._changes.following(principal.tenant) as changes:
            while True:
                began = time.monotonic()
                total = await self._paced_count(principal, max(changes.changed_at, began - _MAX_AGE_S / 2))
                if total != shown:
                    shown = total
                    yield render_fragment("inbox_badge.html", {"badge": total})
                await asyncio.sleep(_MIN_INTERVAL_S)
                await changes.wait_beyond(began, _MAX_AGE_S)

    async def _paced_count(self, principal: Principal, since: float) -> int:
        """Return a count begun since a time. Counts for open pages run one after another, with rests between them."""
        if (total := self._remembered(principal, since)) is not None:
            return total
        async with self._one_at_a_time:
            if (total := self._remembered(principal, since)) is not None:  # another page of theirs was first
                return total
            began = time.monotonic()
            total = await self._counting.run(principal)
            await asyncio.sleep((time.monotonic() - began) * _REST_FACTOR)
            return total

    async def _count_since(self, principal: Principal, since: float) -> int:
        total = self._remembered(principal, since)
        return await self._counting.run(principal) if total is None else total

    def _remembered(self, principal: Principal, since: float) -> int | None:
        began, total = self._counts.get(principal, (float("-inf"), 0))
        return total if began > since else None

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

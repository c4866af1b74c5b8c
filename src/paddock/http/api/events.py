"""Events as they happen, as server-sent events, each a CloudEvent.

All of a tenant's are for whoever operates it; those of their own calls for everybody.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.events.live import View
from paddock.events.patterns import checked
from paddock.host.host import Host
from paddock.http.acting import tenant_of
from paddock.http.auth import caller_of
from paddock.http.checking import Parameter
from paddock.http.endpoint import EVENTS, OPERATOR, WHOSE, Endpoint
from paddock.http.live import AFTER, event_stream
from paddock.http.schemas.building import COUNT, TEXT

_WHICH = {
    "type": "Only these, with commas between: `call.ended,plugin.*` (all).",
    "after": Parameter("Begin after this number of the ledger; 0 is all of it (from now on).", COUNT),
}
_FURTHEST = 10_000  # entries that somebody goes back who sees few of them: each is read to know


class EventRoutes:
    """Following the ledger."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/events",
                self.follow,
                "Follow events",
                "Server-sent events: the `data` of each is a CloudEvent in JSON, its id the number in the ledger."
                " `Last-Event-ID` goes on after that. Whoever does not keep up is let go after 256 events.",
                query=WHOSE | _WHICH,
                headers={"Last-Event-ID": AFTER},
                media=EVENTS,
                gives=TEXT,
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/me/events",
                self.follow_own,
                "Follow events of your own calls",
                "The same, of calls that you made or a key of yours did, and without what they say of people."
                f" It goes back {_FURTHEST:,} entries of the ledger at most.",
                query=_WHICH,
                headers={"Last-Event-ID": AFTER},
                media=EVENTS,
                gives=TEXT,
                tag="events",
            ),
        ]

    async def follow(self, request: Request) -> Response:
        tenant, patterns = await tenant_of(self._host, request), _patterns(request)
        after, _ = await self._after(request, tenant)
        return event_stream(self._host.live.follow(tenant, View(patterns), after), self._closing)

    async def follow_own(self, request: Request) -> Response:
        by, patterns = caller_of(request).principal, _patterns(request)
        after, last = await self._after(request, by.tenant)
        view = View(patterns, by.id)
        return event_stream(self._host.live.follow(by.tenant, view, max(after, last - _FURTHEST)), self._closing)

    async def _after(self, request: Request, tenant: Tenant) -> tuple[int, int]:
        """Where somebody begins, and the last entry there is.

        Known before the answer begins: whoever sees that misses nothing from then on.
        """
        last = await self._host.live.last(tenant)
        given = request.headers.get("last-event-id", "").strip() or request.query_params.get("after")
        return last if given is None else int(given), last


def _patterns(request: Request) -> tuple[str, ...]:
    return checked(one for one in request.query_params.get("type", "").split(",") if one.strip())

"""`/events`: live ledger events as server-sent events, each a CloudEvent.

Operators see all events of their tenant; everybody sees the events of their own calls.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import EVENT_STREAM, OPERATOR, TENANT_PARAM, ApiRoute
from paddock.web.routing.schema import NON_NEGATIVE_INT, TEXT
from paddock.web.routing.validation import AFTER_PARAM, ParameterSpec
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream
from paddock.webhooks.cloud_event import parse_patterns
from paddock.webhooks.live_events import EventView

_QUERY_PARAMS = {
    "type": "Only these, with commas between: `call.ended,plugin.*` (all).",
    "after": ParameterSpec("Begin after this number of the ledger; 0 is all of it (from now on).", NON_NEGATIVE_INT),
}
_MAX_REPLAY_ENTRIES = 10_000  # for filtered views, which must read every entry


class EventRoutes:
    """Routes that stream ledger events."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/events",
                self.follow,
                "Follow events",
                "Server-sent events: the `data` of each is a CloudEvent in JSON, its id the number in the ledger."
                " `Last-Event-ID` goes on after that. Whoever does not keep up is let go after 256 events.",
                query=TENANT_PARAM | _QUERY_PARAMS,
                headers={"Last-Event-ID": AFTER_PARAM},
                media_type=EVENT_STREAM,
                response_schema=TEXT,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/me/events",
                self.follow_own,
                "Follow events of your own calls",
                "The same, of calls that you made or a key of yours did, and without what they say of people."
                f" It goes back {_MAX_REPLAY_ENTRIES:,} entries of the ledger at most.",
                query=_QUERY_PARAMS,
                headers={"Last-Event-ID": AFTER_PARAM},
                media_type=EVENT_STREAM,
                response_schema=TEXT,
                tag="events",
            ),
        ]

    async def follow(self, request: Request) -> Response:
        tenant, patterns = await request_tenant(self._host, request), _requested_patterns(request)
        after, _ = await self._start_position(request, tenant)
        return event_stream(self._host.live_events.follow(tenant, EventView(patterns), after), self._closing)

    async def follow_own(self, request: Request) -> Response:
        principal, patterns = caller_of(request).principal, _requested_patterns(request)
        after, last = await self._start_position(request, principal.tenant)
        view = EventView(patterns, principal.id)
        return event_stream(
            self._host.live_events.follow(principal.tenant, view, max(after, last - _MAX_REPLAY_ENTRIES)), self._closing
        )

    async def _start_position(self, request: Request, tenant: Tenant) -> tuple[int, int]:
        """Return the ledger position to start after, and the last one.

        Read before the response starts: a client that sees the response misses nothing from then on.
        """
        last = await self._host.live_events.last_seq(tenant)
        requested = request.headers.get("last-event-id", "").strip() or request.query_params.get("after")
        return last if requested is None else int(requested), last


def _requested_patterns(request: Request) -> tuple[str, ...]:
    return parse_patterns(pattern for pattern in request.query_params.get("type", "").split(",") if pattern.strip())

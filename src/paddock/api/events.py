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
from paddock.web.routing.validation import AFTER_PARAM, NON_NEGATIVE_INT, ParameterSpec
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream
from paddock.webhooks.cloud_event import parse_patterns
from paddock.webhooks.live_events import EventView

_QUERY_PARAMS = {
    "type": "Only these event types, separated by commas: `call.ended,plugin.*`; all by default.",
    "after": ParameterSpec(
        "Start after this ledger position, 0 for the whole ledger; new events only by default.", NON_NEGATIVE_INT
    ),
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
                "Server-sent events: `data` is a CloudEvent in JSON, the id its ledger position. `Last-Event-ID`"
                " resumes after that position. A client that falls 256 events behind is disconnected.",
                query=TENANT_PARAM | _QUERY_PARAMS,
                headers={"Last-Event-ID": AFTER_PARAM},
                media_type=EVENT_STREAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/me/events",
                self.follow_own,
                "Follow events of the caller's own calls",
                "As `/events`, for calls made by the caller or one of their keys, without personal data. Replays at"
                f" most {_MAX_REPLAY_ENTRIES:,} ledger entries.",
                query=_QUERY_PARAMS,
                headers={"Last-Event-ID": AFTER_PARAM},
                media_type=EVENT_STREAM,
                tag="events",
            ),
        ]

    async def follow(self, request: Request) -> Response:
        tenant, patterns = await request_tenant(self._host, request), _requested_patterns(request)
        after, _ = await self._start_position(request, tenant)
        return event_stream(self._host.ledger.live_events.follow(tenant, EventView(patterns), after), self._closing)

    async def follow_own(self, request: Request) -> Response:
        principal, patterns = caller_of(request).principal, _requested_patterns(request)
        after, last = await self._start_position(request, principal.tenant)
        view = EventView(patterns, principal.id)
        return event_stream(
            self._host.ledger.live_events.follow(principal.tenant, view, max(after, last - _MAX_REPLAY_ENTRIES)),
            self._closing,
        )

    async def _start_position(self, request: Request, tenant: Tenant) -> tuple[int, int]:
        """Return the ledger position to start after, and the last one.

        Read before the response starts: a client that sees the response misses nothing from then on.
        """
        last = await self._host.ledger.live_events.last_seq(tenant)
        requested = request.headers.get("last-event-id", "").strip() or request.query_params.get("after")
        return last if requested is None else int(requested), last


def _requested_patterns(request: Request) -> tuple[str, ...]:
    return parse_patterns(pattern for pattern in request.query_params.get("type", "").split(",") if pattern.strip())

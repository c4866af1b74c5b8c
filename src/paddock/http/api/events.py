"""Events as they happen, for whoever operates a tenant: server-sent events, each a CloudEvent."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from paddock.events.patterns import checked
from paddock.host.host import Host
from paddock.http.acting import tenant_of
from paddock.http.checking import Parameter
from paddock.http.endpoint import EVENTS, OPERATOR, WHOSE, Endpoint
from paddock.http.live import AFTER, event_stream
from paddock.http.schemas.building import COUNT, TEXT


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
                query=WHOSE
                | {
                    "type": "Only these, with commas between: `call.ended,plugin.*` (all).",
                    "after": Parameter("Begin after this number of the ledger; 0 is all of it (from now on).", COUNT),
                },
                headers={"Last-Event-ID": AFTER},
                media=EVENTS,
                gives=TEXT,
                who=OPERATOR,
            )
        ]

    async def follow(self, request: Request) -> Response:
        tenant = await tenant_of(self._host, request)
        written = request.query_params.get("type", "")
        patterns = checked(one for one in written.split(",") if one.strip())
        given = request.headers.get("last-event-id", "").strip() or request.query_params.get("after")
        # Known before the answer begins: whoever sees that misses nothing from then on.
        after = await self._host.live.last(tenant) if given is None else int(given)
        return event_stream(self._host.live.follow(tenant, patterns, after), self._closing)

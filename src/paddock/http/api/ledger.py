"""`/ledger`: what was recorded, for whoever operates a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.ledger_reading import moment
from paddock.http.acting import tenant_of
from paddock.http.checking import Parameter
from paddock.http.endpoint import (
    EVENTS,
    OPERATOR,
    WHOSE,
    Also,
    Endpoint,
    answer,
    count_of,
    flag,
    named,
    number,
    yes_or_no,
)
from paddock.http.live import AFTER, Told, event_stream
from paddock.http.schemas.building import ref
from paddock.ledger.feed import MOST, Wanted

_LISTED = 50
_NUMBER = {"type": "integer", "minimum": 0}
_ONLY = {
    "type": "Only these, such as `plugin.crashed` or `plugin.hook.*`.",
    "plugin": "Only those about this plugin.",
    "call": "Only those of this call.",
    "request": "Only those of this request.",
    "principal": "Only those of what this one did.",
    "since": "From this time on, such as `2030-01-31T08:00`.",
    "until": "Before this time.",
}


class LedgerRoutes:
    """Looking at entries, and following them."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/ledger",
                self.list_entries,
                "Look at what was recorded",
                "`entries`, newest first; `next`: what to give as `before` for those before them, or null.",
                query=WHOSE
                | _ONLY
                | {
                    "before": Parameter("Before the entry with this number: the page before.", _NUMBER),
                    "limit": count_of(f"How many, at most {MOST}; {_LISTED} where it is not given.", _LISTED, MOST),
                    "follow": yes_or_no("1: new entries as server-sent events."),
                },
                headers={"Last-Event-ID": AFTER},
                gives=ref("LedgerPage"),
                also=(
                    Also(
                        200,
                        EVENTS,
                        "With `follow`: every new entry, oldest first, each an event `entry` with its number as id."
                        " `Last-Event-ID` goes on after that.",
                    ),
                ),
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/ledger/{id}",
                self.show_entries,
                "Show what was recorded of one thing",
                "The entry with this id, or all of the call or request with this id, in order. `altered` names those"
                " that are not what was recorded.",
                query=WHOSE,
                gives=ref("LedgerStory"),
                who=OPERATOR,
            ),
        ]

    async def list_entries(self, request: Request) -> Response:
        tenant, wanted = await tenant_of(self._host, request), _wanted(request)
        if flag(request, "follow"):
            after = request.headers.get("last-event-id")
            told = self._told(tenant, wanted, None if after is None else int(after))
            return event_stream(told, self._closing)
        limit, before = number(request, "limit", _LISTED), request.query_params.get("before")
        entries = await self._host.ledger.page(
            tenant, wanted, before=None if before is None else int(before), limit=limit
        )
        return answer(
            {
                "tenant": tenant,
                "entries": [entry.to_json() for entry in entries],
                "next": entries[-1].seq if len(entries) == limit else None,
            }
        )

    async def _told(self, tenant: Tenant, wanted: Wanted, after: int | None) -> AsyncGenerator[Told, None]:
        async with aclosing(self._host.ledger.follow(tenant, wanted, after)) as entries:
            async for entry in entries:
                yield Told(entry.to_json(), "entry", entry.seq)

    async def show_entries(self, request: Request) -> Response:
        tenant = await tenant_of(self._host, request)
        entries, forged = await self._host.ledger.told_of(tenant, named(request, "id"))
        return answer({"entries": [entry.to_json() for entry in entries], "altered": [entry.id for entry in forged]})


def _wanted(request: Request) -> Wanted:
    given = request.query_params
    return Wanted(
        given.get("type"),
        given.get("plugin"),
        given.get("call"),
        given.get("request"),
        given.get("principal"),
        moment(given.get("since")),
        moment(given.get("until")),
    )

"""`/ledger`: ledger entries, for operators of a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.ledger.reader import parse_ledger_time
from paddock.ledger.read.entries import MAX_PAGE_ENTRIES, EntryFilter
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import (
    EVENT_STREAM,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    ExtraResponse,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    json_response,
    path_param,
)
from paddock.web.routing.schema import (
    BOOLEAN,
    DATE_TIME,
    NON_NEGATIVE_INT,
    OBJECT,
    TEXT,
    TEXTS,
    Schema,
    array_of,
    describe,
    nullable,
    object_schema,
    ref,
)
from paddock.web.routing.validation import AFTER_PARAM, ParameterSpec
from paddock.web.sse import ServerSentEvent, event_stream

_DEFAULT_LIMIT = 50
_SEQ_SCHEMA = {"type": "integer", "minimum": 0}
_FILTER_PARAMS = {
    "type": "Only these, such as `plugin.crashed` or `plugin.hook.*`.",
    "plugin": "Only those about this plugin.",
    "call": "Only those of this call.",
    "request": "Only those of this request.",
    "principal": "Only those of what this one did.",
    "since": "From this time on, such as `2030-01-31T08:00`.",
    "until": "Before this time.",
}


class LedgerRoutes:
    """Routes that list and follow ledger entries."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/ledger",
                self.list_entries,
                "Look at what was recorded",
                "`entries`, newest first; `next`: what to give as `before` for those before them, or null.",
                query=TENANT_PARAM
                | _FILTER_PARAMS
                | {
                    "before": ParameterSpec("Before the entry with this number: the page before.", _SEQ_SCHEMA),
                    "limit": int_param_spec(
                        f"How many, at most {MAX_PAGE_ENTRIES}; {_DEFAULT_LIMIT} where it is not given.",
                        _DEFAULT_LIMIT,
                        MAX_PAGE_ENTRIES,
                    ),
                    "follow": bool_param_spec("1: new entries as server-sent events."),
                },
                headers={"Last-Event-ID": AFTER_PARAM},
                response_schema=ref("LedgerPage"),
                extra_responses=(
                    ExtraResponse(
                        200,
                        EVENT_STREAM,
                        "With `follow`: every new entry, oldest first, each an event `entry` with its number as id."
                        " `Last-Event-ID` goes on after that.",
                    ),
                ),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/ledger/{id}",
                self.show_entries,
                "Show what was recorded of one thing",
                "The entry with this id, or all of the call or request with this id, in order. `altered` names those"
                " that are not what was recorded.",
                query=TENANT_PARAM,
                response_schema=ref("LedgerStory"),
                access=OPERATOR,
            ),
        ]

    async def list_entries(self, request: Request) -> Response:
        tenant, entry_filter = await request_tenant(self._host, request), _entry_filter(request)
        if bool_param(request, "follow"):
            after = request.headers.get("last-event-id")
            events = self._entry_events(tenant, entry_filter, None if after is None else int(after))
            return event_stream(events, self._closing)
        limit, before = int_param(request, "limit", _DEFAULT_LIMIT), request.query_params.get("before")
        entries = await self._host.ledger.page(
            tenant, entry_filter, before=None if before is None else int(before), limit=limit
        )
        return json_response(
            {
                "tenant": tenant,
                "entries": [entry.to_json() for entry in entries],
                "next": entries[-1].seq if len(entries) == limit else None,
            }
        )

    async def _entry_events(
        self, tenant: Tenant, entry_filter: EntryFilter, after: int | None
    ) -> AsyncGenerator[ServerSentEvent, None]:
        async with aclosing(self._host.ledger.follow(tenant, entry_filter, after)) as entries:
            async for entry in entries:
                yield ServerSentEvent(entry.to_json(), "entry", entry.seq)

    async def show_entries(self, request: Request) -> Response:
        tenant = await request_tenant(self._host, request)
        entries, altered = await self._host.ledger.entries_by_id(tenant, path_param(request, "id"))
        return json_response(
            {"entries": [entry.to_json() for entry in entries], "altered": [entry.id for entry in altered]}
        )


def _entry_filter(request: Request) -> EntryFilter:
    query = request.query_params
    return EntryFilter(
        query.get("type"),
        query.get("plugin"),
        query.get("call"),
        query.get("request"),
        query.get("principal"),
        parse_ledger_time(query.get("since")),
        parse_ledger_time(query.get("until")),
    )


_ENTRY_FIELDS: dict[str, Schema] = {
    "tenant": TEXT,
    "seq": describe(NON_NEGATIVE_INT, "Its number in the chain of its tenant."),
    "id": TEXT,
    "at": DATE_TIME,
    "type": describe(TEXT, "As in the reference of events."),
    "plugin": nullable(TEXT),
    "call": nullable(TEXT),
    "request": nullable(TEXT),
    "facts": OBJECT,
    "personal": describe(OBJECT, "What it says of people, as far as that was not erased."),
    "erased": BOOLEAN,
    "hash": TEXT,
}

SCHEMAS: dict[str, Schema] = {
    "LedgerEntry": object_schema(_ENTRY_FIELDS),
    "LedgerPage": object_schema(
        {
            "tenant": TEXT,
            "entries": array_of(ref("LedgerEntry")),
            "next": nullable(
                describe(NON_NEGATIVE_INT, "What to give as `before` for those before them; null where there are none.")
            ),
        }
    ),
    "LedgerStory": object_schema(
        {
            "entries": array_of(ref("LedgerEntry")),
            "altered": describe(TEXTS, "The ids of those that are not what was recorded."),
        },
        description="One entry, or everything that was recorded of one call or request, in order.",
    ),
}

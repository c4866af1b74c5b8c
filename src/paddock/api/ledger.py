"""`/ledger`: ledger entries, for operators of a tenant; `/erasures`: erase people from them, for the local operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.core.schema_annotations import NonNegativeInt
from paddock.host.host import Host
from paddock.host.ledger.reader import parse_ledger_time
from paddock.ledger.entry import LedgerEntryJson
from paddock.ledger.read.entries import MAX_PAGE_ENTRIES, EntryFilter
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import (
    EVENT_STREAM,
    LOCAL,
    MAX_NAME_CHARS,
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    ExtraResponse,
    JsonResponse,
    RequestBody,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    path_param,
)
from paddock.web.routing.validation import AFTER_PARAM, NON_NEGATIVE_INT, ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import ServerSentEvent, event_stream

_DEFAULT_LIMIT = 50
_FILTER_PARAMS = {
    "type": "Only entries of this type, such as `plugin.crashed` or `plugin.hook.*`.",
    "plugin": "Only entries about this plugin.",
    "call": "Only entries of this call.",
    "request": "Only entries of this request.",
    "principal": "Only entries about actions of this principal.",
    "since": "From this time on, such as `2030-01-31T08:00`.",
    "until": "Before this time.",
}


class LedgerPageJson(TypedDict):
    """A page of ledger entries, newest first."""

    tenant: str
    entries: list[LedgerEntryJson]
    next: Annotated[NonNegativeInt | None, "The `before` of the next page; null on the last page."]
    end: Annotated[NonNegativeInt, "The position of the tenant's last entry; `follow` goes on `after` it."]


class LedgerHistoryJson(TypedDict):
    """One entry, or all entries of one call or request, in ledger order."""

    entries: list[LedgerEntryJson]
    altered: Annotated[list[str], "The ids of entries whose content does not match the recorded hash."]


class EraseBody(TypedDict):
    principal: Annotated[str, "The principal to erase, such as `user:ann`."]
    reason: Annotated[str, "The reason; it is recorded."]


class ErasureJson(TypedDict):
    """What was erased."""

    tenant: str
    erased: Annotated[NonNegativeInt, "The number of ledger entries that named the principal."]
    cleared: Annotated[NonNegativeInt, "The number of other rows that did."]
    left_in: Annotated[str | None, "The file that still holds it, while another process reads there."]


class LedgerRoutes:
    """Routes that list, follow and erase ledger entries."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/ledger",
                self.list_entries,
                "List ledger entries",
                "A page of entries, newest first.",
                query=TENANT_PARAM
                | _FILTER_PARAMS
                | {
                    "before": ParameterSpec("Only entries before this position; see `next`.", NON_NEGATIVE_INT),
                    "limit": int_param_spec(
                        f"Maximum number of entries; {_DEFAULT_LIMIT} by default, at most {MAX_PAGE_ENTRIES}.",
                        _DEFAULT_LIMIT,
                        MAX_PAGE_ENTRIES,
                    ),
                    "follow": bool_param_spec("1: stream new entries as server-sent events."),
                    "after": ParameterSpec(
                        "With `follow`: start after this position; new entries only by default.", NON_NEGATIVE_INT
                    ),
                },
                headers={"Last-Event-ID": AFTER_PARAM},
                extra_responses=(
                    ExtraResponse(
                        200,
                        EVENT_STREAM,
                        "With `follow`: every new entry, oldest first, as an event `entry` whose id is its position."
                        " `Last-Event-ID` resumes after that position.",
                    ),
                ),
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/ledger/{id}",
                self.show_entries,
                "Show the entries of one entry, call or request",
                "The entry with this id, or all entries of the call or request with this id, in ledger order.",
                query=TENANT_PARAM,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/erasures",
                self.erase_principal,
                "Erase the personal data of a principal",
                "The number of entries. It cannot be undone. The chain stays valid, and records the erasure.",
                query=TENANT_PARAM,
                request_body=RequestBody(EraseBody, {"principal": "user:ann", "reason": "asked to be forgotten"}),
                tag="ledger",
                access=LOCAL,
            ),
        ]

    async def list_entries(self, request: Request) -> JsonResponse[LedgerPageJson] | Response:
        tenant, entry_filter = await self._chain_tenant(request), _entry_filter(request)
        if bool_param(request, "follow"):
            after = request.headers.get("last-event-id", request.query_params.get("after"))
            events = self._entry_events(tenant, entry_filter, None if after is None else int(after))
            return event_stream(events, self._closing)
        limit, before = int_param(request, "limit", _DEFAULT_LIMIT), request.query_params.get("before")
        entries, end = await self._host.ledger.reader.page_to_follow(
            tenant, entry_filter, before=None if before is None else int(before), limit=limit
        )
        return JsonResponse(
            {
                "tenant": tenant,
                "entries": [entry.to_json() for entry in entries],
                "next": entries[-1].seq if len(entries) == limit else None,
                "end": end,
            }
        )

    async def _entry_events(
        self, tenant: Tenant, entry_filter: EntryFilter, after: int | None
    ) -> AsyncGenerator[ServerSentEvent, None]:
        async with aclosing(self._host.ledger.reader.follow(tenant, entry_filter, after)) as entries:
            async for entry in entries:
                yield ServerSentEvent(entry.to_json(), "entry", entry.seq)

    async def show_entries(self, request: Request) -> JsonResponse[LedgerHistoryJson]:
        tenant = await self._chain_tenant(request)
        entries, altered = await self._host.ledger.reader.entries_by_id(tenant, path_param(request, "id"))
        return JsonResponse(
            {"entries": [entry.to_json() for entry in entries], "altered": [entry.id for entry in altered]}
        )

    async def erase_principal(self, request: Request) -> JsonResponse[ErasureJson]:
        body, tenant = validated_body(request, EraseBody), await self._chain_tenant(request)
        erased, log = await self._host.ledger.erasure.erase(
            tenant, body["principal"], by=caller_of(request).principal.id, reason=body["reason"]
        )
        return JsonResponse(
            {
                "tenant": tenant,
                "erased": erased.entries,
                "cleared": erased.rows,
                "left_in": None if log is None else str(log),
            }
        )

    async def _chain_tenant(self, request: Request) -> Tenant:
        """Return the tenant of the chain: the operator at this machine also reads those of missing tenants.

        Raises:
            NotFound: there is no such chain, or it is not the caller's.
        """
        name = request.query_params.get("tenant")
        if name is None or caller_of(request).operator is None:
            return await request_tenant(self._host, request)
        return await self._host.ledger.reader.chain_tenant(name[:MAX_NAME_CHARS])


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

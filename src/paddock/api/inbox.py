"""`/inbox`: everything that needs the caller, in one list with counts, and their live changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.action import ActionJson
from paddock.core.call import Principal
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.host.host import Host
from paddock.host.inbox.inbox import ALL_KINDS, DEFAULT_PAGE_ITEMS, MAX_COUNTED_ITEMS, MAX_PAGE_ITEMS, InboxCounts
from paddock.host.inbox.item import InboxItem, InboxKind, InboxPosition
from paddock.host.inbox.source import InboxQuery
from paddock.manifest.effects import Risk
from paddock.web.request_context import call_context
from paddock.web.routing.route import (
    EVENT_STREAM,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    path_param,
)
from paddock.web.routing.validation import ParameterSpec
from paddock.web.sse import ServerSentEvent, event_stream

_MIN_INTERVAL_S: Final = 0.5  # between two counts for one follower, however much happens


class InboxChoiceJson(TypedDict):
    """An answer that is possible from the list."""

    answer: Annotated[str, "`approve`, `approve_once`, `deny`, or the action of a repair."]
    label: str
    confirm: Annotated[str, "The question before it is done; empty if none is needed."]
    host_only: Annotated[bool, "Whether only operators of the host may give it."]


class InboxItemJson(TypedDict):
    """Something that needs a person."""

    id: str
    kind: InboxKind
    title: str
    detail: Annotated[str, "Why it needs a person; may contain text of plugins."]
    risk: Risk
    requester: Annotated[str, "The principal that asks; empty if it is the host."]
    for_person: Annotated[str, "The person the call is for; empty if there is none."]
    plugin: str
    callable: str
    effects: list[str]
    answerable_by: Annotated[list[str], "Who may answer: people, roles and groups."]
    needed: Annotated[int, "How many more answers it takes."]
    choices: Annotated[list[InboxChoiceJson], "Empty: it is answered on its page."]
    inputs: Annotated[dict[str, Any] | None, "The exact inputs of a call; null if they are too long for a list."]
    rules: Annotated[list[str], "The rules that asked."]
    binding: Annotated[str, "The hash of what exactly is answered; empty if nothing is bound."]
    link: Annotated[str, "Its page in the console."]
    action: Annotated[ActionJson | None, "What to do about it."]
    reference: Annotated[str, "What it is about: the id of the call, the plugin or the repair."]
    created_at: Annotated[DateTime | None, "Null if it is not known since when."]
    expires_at: Annotated[DateTime | None, "Null if it does not expire."]


class InboxCountsJson(TypedDict):
    """How much needs the caller."""

    total: NonNegativeInt
    by_kind: Annotated[dict[str, int], f"At most {MAX_COUNTED_ITEMS:,} of each kind are counted."]
    with_others: Annotated[int, "What the caller asked for and others answer."]


class UnavailableKindJson(TypedDict):
    """A kind that cannot be listed right now."""

    kind: InboxKind
    code: str
    message: str


class InboxPageJson(TypedDict):
    """A page of the inbox: the most dangerous first, then the nearest deadline, then the oldest."""

    items: list[InboxItemJson]
    next: Annotated[str | None, "The `after` of the next page; null on the last page."]
    counts: InboxCountsJson
    unavailable: list[UnavailableKindJson]


class InboxRoutes:
    """Routes of the inbox."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/inbox",
                self.list_items,
                "List what needs you",
                "A page of everything that the caller may answer: approval requests, consents, unknown outcomes,"
                " changed tool definitions and repairs. Each is answered through its own route.",
                query=TENANT_PARAM
                | {
                    "kind": ParameterSpec(
                        "Only items of this kind.", {"type": "string", "enum": [kind.value for kind in InboxKind]}
                    ),
                    "with_others": bool_param_spec("1: instead, what the caller asked for and others answer."),
                    "after": "Only items after this position; see `next`.",
                    "limit": int_param_spec(
                        f"Maximum number of items; {DEFAULT_PAGE_ITEMS} by default, at most {MAX_PAGE_ITEMS}.",
                        DEFAULT_PAGE_ITEMS,
                        MAX_PAGE_ITEMS,
                    ),
                },
            ),
            ApiRoute(
                "GET",
                "/inbox/events",
                self.follow,
                "Follow how much needs you",
                "Server-sent events of type `inbox`: the counts, first at once and then after each change.",
                query=TENANT_PARAM,
                media_type=EVENT_STREAM,
            ),
            ApiRoute(
                "GET",
                "/inbox/{id}",
                self.show_item,
                "Show an item of the inbox",
                "The item; 404 once it is answered.",
                query=TENANT_PARAM,
            ),
        ]

    async def list_items(self, request: Request) -> JsonResponse[InboxPageJson]:
        principal, after = await self._principal(request), request.query_params.get("after")
        kind = request.query_params.get("kind")
        query = InboxQuery(
            principal,
            kinds=ALL_KINDS if kind is None else frozenset({InboxKind(kind)}),
            with_others=bool_param(request, "with_others"),
            after=None if after is None else InboxPosition.from_cursor(after),
            limit=int_param(request, "limit", DEFAULT_PAGE_ITEMS),
        )
        page = await self._host.inbox.page(query)
        return JsonResponse(
            {
                "items": [item_json(item) for item in page.items],
                "next": None if page.next is None else page.next.to_cursor(),
                "counts": counts_json(await self._host.inbox.counts(principal)),
                "unavailable": [
                    {"kind": kind, "code": error.error_code, "message": error.message}
                    for kind, error in sorted(page.unavailable.items())
                ],
            }
        )

    async def show_item(self, request: Request) -> JsonResponse[InboxItemJson]:
        principal = await self._principal(request)
        return JsonResponse(item_json(await self._host.inbox.find(principal, path_param(request, "id"))))

    async def follow(self, request: Request) -> Response:
        return event_stream(self._counts(await self._principal(request)), self._closing)

    async def _counts(self, principal: Principal) -> AsyncGenerator[ServerSentEvent, None]:
        last: Mapping[str, Any] | None = None
        async with aclosing(self._host.inbox.changes(principal.tenant)) as changes:
            async for _ in changes:
                current = counts_json(await self._host.inbox.counts(principal))
                if current != last:
                    last = current
                    yield ServerSentEvent(current, "inbox")
                await asyncio.sleep(_MIN_INTERVAL_S)  # what changes meanwhile is counted together

    async def _principal(self, request: Request) -> Principal:
        return (await call_context(self._host, request)).principal


def item_json(item: InboxItem) -> InboxItemJson:
    """Serialize an item."""
    return {
        "id": item.id,
        "kind": item.kind,
        "title": item.title,
        "detail": item.detail,
        "risk": item.risk,
        "requester": item.requester,
        "for_person": item.for_person,
        "plugin": item.plugin,
        "callable": item.callable,
        "effects": list(item.effects),
        "answerable_by": list(item.answerable_by),
        "needed": item.needed,
        "choices": [
            {"answer": one.answer, "label": one.label, "confirm": one.confirm, "host_only": one.host_only}
            for one in item.choices
        ],
        "inputs": None if item.inputs is None else dict(item.inputs),
        "rules": list(item.rules),
        "binding": item.binding,
        "link": item.link,
        "action": None if item.action is None else item.action.to_json(),
        "reference": item.reference,
        "created_at": item.created_at,
        "expires_at": item.expires_at,
    }


def counts_json(counts: InboxCounts) -> InboxCountsJson:
    """Serialize counts."""
    return {
        "total": counts.total,
        "by_kind": {kind.value: many for kind, many in counts.by_kind.items()},
        "with_others": counts.with_others,
    }

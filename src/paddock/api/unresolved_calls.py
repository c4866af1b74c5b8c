"""`/calls/unresolved`: calls whose outcome is unknown, and their resolution by a person."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request

from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.gate.idempotency.manual_resolution import MAX_COMMENT_CHARS, EffectJson, record_json
from paddock.host.calls.unknown_outcomes import UnresolvedEffect
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import (
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    path_param,
)
from paddock.web.routing.validation import validated_body

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1_000
_TAG = "calls"


class OutcomeSearchJson(TypedDict):
    """The search for the outcome of a call."""

    tries: NonNegativeInt
    last_error: Annotated[str | None, "The error code of the last try."]
    next_at: DateTime
    now: Annotated[bool, "Whether a host searches right now."]


class UnresolvedCallJson(EffectJson):
    """The effect of a call, and the search for its outcome."""

    search: Annotated[OutcomeSearchJson | None, "Null if no host searches."]


class UnresolvedCallsJson(TypedDict):
    tenant: str
    calls: list[EffectJson]
    next: Annotated[str | None, "The `after` of the next page; null on the last page."]


class ResolveCallBody(TypedDict):
    happened: Annotated[bool, "Whether its effect has happened."]
    result: NotRequired[
        Annotated[Any, "Its result, for callers that repeat its key; checked against the output schema."]
    ]
    reason: NotRequired[
        Annotated[str, f"How the person knows; up to {MAX_COMMENT_CHARS:,} characters are kept in the ledger."]
    ]


class UnresolvedCallRoutes:
    """Routes that list and resolve calls whose outcome is unknown."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/calls/unresolved",
                self.list_unresolved_calls,
                "List calls whose outcome is unknown",
                "A page of `calls`, oldest first, each with its key, parameters and error.",
                query=TENANT_PARAM
                | {
                    "resolved": bool_param_spec("1: resolved calls instead, latest first."),
                    "after": "Only calls after this one; see `next`.",
                    "limit": int_param_spec(
                        f"Maximum number of calls; {_DEFAULT_LIMIT} by default, at most {_MAX_LIMIT}.",
                        _DEFAULT_LIMIT,
                        _MAX_LIMIT,
                    ),
                },
                tag=_TAG,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/calls/unresolved/{id}",
                self.show_unresolved_call,
                "Show the effect of a call, resolved or not",
                "The call's effect, and the search for its outcome.",
                query=TENANT_PARAM,
                tag=_TAG,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/calls/unresolved/{id}/resolve",
                self.resolve_call,
                "Record the outcome of a call",
                "The call's effect. A call that has happened is never made again; callers that repeat its key get the"
                " `result`. One that has not happened may be made again. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(
                    ResolveCallBody, {"happened": True, "result": {"id": 3}, "reason": "it is in the outbox"}
                ),
                error_statuses=(409,),
                tag=_TAG,
                access=OPERATOR,
                needs_person=True,
            ),
        ]

    async def list_unresolved_calls(self, request: Request) -> JsonResponse[UnresolvedCallsJson]:
        tenant, limit = await request_tenant(self._host, request), int_param(request, "limit", _DEFAULT_LIMIT)
        effects = await self._host.calls.unknown_outcomes.list_effects(
            tenant, resolved=bool_param(request, "resolved"), after=request.query_params.get("after"), limit=limit
        )
        calls = [record_json(item.effect) for item in effects]
        next_id = calls[-1]["call_id"] if len(calls) == limit else None
        return JsonResponse({"tenant": tenant, "calls": calls, "next": next_id})

    async def show_unresolved_call(self, request: Request) -> JsonResponse[UnresolvedCallJson]:
        tenant = await request_tenant(self._host, request)
        return JsonResponse(_to_json(await self._host.calls.unknown_outcomes.find(tenant, path_param(request, "id"))))

    async def resolve_call(self, request: Request) -> JsonResponse[UnresolvedCallJson]:
        body, context, call = (
            validated_body(request, ResolveCallBody),
            await call_context(self._host, request),
            path_param(request, "id"),
        )
        person = require_interactive_person(context.principal)
        resolved = await self._host.calls.unknown_outcomes.resolve(
            context.tenant,
            call,
            happened=body["happened"],
            result=body.get("result"),
            result_given="result" in body,
            comment=body.get("reason", ""),
            by=person.id,
        )
        return JsonResponse(_to_json(resolved))


def _to_json(item: UnresolvedEffect) -> UnresolvedCallJson:
    search: OutcomeSearchJson | None = None
    if item.search is not None:
        search = {
            "tries": item.search.tries,
            "last_error": item.search.last_error,
            "next_at": item.search.next_at,
            "now": item.search.now,
        }
    return {**record_json(item.effect), "search": search}

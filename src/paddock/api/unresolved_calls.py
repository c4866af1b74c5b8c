"""`/calls/unresolved`: calls whose outcome is unknown, and a person's word on what became of them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.gate.idempotency.resolve import MAX_COMMENT_CHARS, record_json
from paddock.gate.idempotency.states import EffectState, Resolution
from paddock.host.calls.unknown_outcomes import UnresolvedEffect
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.route import (
    OPERATOR,
    TENANT_PARAM,
    ApiRoute,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    json_response,
    path_param,
)
from paddock.web.routing.schema import (
    ANY,
    BOOLEAN,
    DATE_TIME,
    NON_NEGATIVE_INT,
    OBJECT,
    TEXT,
    Schema,
    array_of,
    body_schema,
    describe,
    enum_of,
    nullable,
    object_schema,
    ref,
)
from paddock.web.routing.validation import validated_body

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1_000
_TAG = "calls"

RESOLVE_BODY = body_schema(
    {
        "happened": describe(BOOLEAN, "Whether its effect has happened."),
        "result": describe(ANY, "Its result, for callers that repeat its key; null if left out."),
        "reason": describe(
            TEXT, f"How the person knows: up to {MAX_COMMENT_CHARS:,} characters are kept, in the ledger."
        ),
    },
    required=("happened",),
    example={"happened": True, "result": {"id": 3}, "reason": "it is in the outbox"},
)

_RECORD_FIELDS: dict[str, Schema] = {
    "call_id": TEXT,
    "plugin": TEXT,
    "callable": TEXT,
    "key": describe(TEXT, "Its idempotency key."),
    "state": enum_of(state.value for state in EffectState),
    "claimed_at": DATE_TIME,
    "started_at": nullable(DATE_TIME),
    "ended_at": nullable(DATE_TIME),
    "principal": nullable(TEXT),
    "recovery": describe(TEXT, "How the host finds out by itself: `atomic`, `native_key`, `probe`, or `none`."),
    "params": describe(ANY, "Null where they were erased."),
    "error": nullable(OBJECT),
    "resolution": nullable(enum_of(one.value for one in Resolution)),
    "resolved_by": nullable(TEXT),
    "result": ANY,
}
_SEARCH = object_schema(
    {
        "tries": NON_NEGATIVE_INT,
        "last_error": nullable(describe(TEXT, "The code of the last try's error.")),
        "next_at": DATE_TIME,
        "now": describe(BOOLEAN, "Whether a host tries right now."),
    },
    description="The search for the outcome.",
)

SCHEMAS: dict[str, Schema] = {
    "UnresolvedCalls": object_schema(
        {"tenant": TEXT, "calls": array_of(object_schema(_RECORD_FIELDS)), "next": nullable(TEXT)}
    ),
    "UnresolvedCall": object_schema(
        {**_RECORD_FIELDS, "search": nullable(_SEARCH)},
        description="The effect of a call; `search` is null where no host searches for its outcome.",
    ),
}


class UnresolvedCallRoutes:
    """Routes that list and resolve calls whose outcome is unknown."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/calls/unresolved",
                self.list_calls,
                "List calls whose outcome is unknown",
                "`calls`, oldest first, each with its key, parameters and error; `next`: what to give as `after` for"
                " those after them, or null.",
                query=TENANT_PARAM
                | {
                    "resolved": bool_param_spec("1: instead, those that were resolved, latest first."),
                    "after": "Only those after this call.",
                    "limit": int_param_spec(
                        f"How many, at most {_MAX_LIMIT}; {_DEFAULT_LIMIT} where it is not given.",
                        _DEFAULT_LIMIT,
                        _MAX_LIMIT,
                    ),
                },
                response_schema=ref("UnresolvedCalls"),
                tag=_TAG,
                access=OPERATOR,
            ),
            ApiRoute(
                "GET",
                "/calls/unresolved/{id}",
                self.show_call,
                "Show the effect of a call, resolved or not",
                "The call's effect, and how the search for its outcome goes.",
                query=TENANT_PARAM,
                response_schema=ref("UnresolvedCall"),
                tag=_TAG,
                access=OPERATOR,
            ),
            ApiRoute(
                "POST",
                "/calls/unresolved/{id}/resolve",
                self.resolve_call,
                "Record the outcome of a call",
                "The call's effect. A call that has happened is never made again; callers that repeat its key get the"
                " `result`. One that has not happened may be made again. For people, not for keys.",
                query=TENANT_PARAM,
                body_description="`happened`; `result`, checked against the callable's output schema; `reason`.",
                request_schema=RESOLVE_BODY,
                response_schema=ref("UnresolvedCall"),
                error_statuses=(409,),
                tag=_TAG,
                access=OPERATOR,
            ),
        ]

    async def list_calls(self, request: Request) -> Response:
        tenant, limit = await request_tenant(self._host, request), int_param(request, "limit", _DEFAULT_LIMIT)
        effects = await self._host.calls.unknown_outcomes.list_effects(
            tenant, resolved=bool_param(request, "resolved"), after=request.query_params.get("after"), limit=limit
        )
        calls = [record_json(item.effect) for item in effects]
        next_id = calls[-1]["call_id"] if len(calls) == limit else None
        return json_response({"tenant": tenant, "calls": calls, "next": next_id})

    async def show_call(self, request: Request) -> Response:
        tenant = await request_tenant(self._host, request)
        return json_response(_to_json(await self._host.calls.unknown_outcomes.find(tenant, path_param(request, "id"))))

    async def resolve_call(self, request: Request) -> Response:
        body, context, call = (
            validated_body(request),
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
        return json_response(_to_json(resolved))


def _to_json(item: UnresolvedEffect) -> dict[str, Any]:
    return record_json(item.effect) | {"search": item.search and item.search._asdict()}

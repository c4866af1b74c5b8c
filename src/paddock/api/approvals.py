"""`/approvals`: approval requests, the answers of people, and standing approvals."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.approvals.answer import REACHES, SCOPES
from paddock.approvals.model import ApprovalState
from paddock.approvals.standing_approval import standing_not_found
from paddock.core.call import CallContext, Principal
from paddock.host.calls.approvals import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.web.request_context import call_context, is_tenant_operator
from paddock.web.routing.body_parsers import parse_remember
from paddock.web.routing.route import (
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
    BOOLEAN,
    DATE_TIME,
    NON_NEGATIVE_INT,
    OBJECT,
    TEXT,
    TEXTS,
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
from paddock.web.security.authenticate import caller_of

_PREVIEW_FIELDS: dict[str, Schema] = {
    "plugin": TEXT,
    "callable": TEXT,
    "does": TEXTS,
    "says": TEXT,
    "params": describe(OBJECT, "Not in lists."),
    "requester": TEXT,
    "reason": TEXT,
}

_ANSWER_FIELDS: dict[str, Schema] = {
    "by": TEXT,
    "operator": nullable(TEXT),
    "approved": BOOLEAN,
    "at": DATE_TIME,
    "comment": TEXT,
    "scope": enum_of(SCOPES),
    "reach": enum_of(REACHES),
}

_APPROVAL_FIELDS: dict[str, Schema] = {
    "id": TEXT,
    "kind": TEXT,
    "state": enum_of(one.value for one in ApprovalState),
    "call_id": TEXT,
    "preview": object_schema(_PREVIEW_FIELDS, optional=("params",), description="What would be done."),
    "effects": TEXTS,
    "requester": TEXT,
    "for_person": nullable(TEXT),
    "editors": TEXTS,
    "approvers": TEXTS,
    "quorum": NON_NEGATIVE_INT,
    "four_eyes": BOOLEAN,
    "remember": describe(TEXT, "How far a yes may be remembered: `never`, `tool` or `plugin`."),
    "reason": TEXT,
    "policies": TEXTS,
    "policy_version": nullable(TEXT),
    "digest": TEXT,
    "binding": TEXT,
    "created_at": DATE_TIME,
    "expires_at": DATE_TIME,
    "ended_at": nullable(DATE_TIME),
    "ended_why": TEXT,
    "replaces": nullable(TEXT),
    "answers": array_of(object_schema(_ANSWER_FIELDS)),
}

_STANDING_FIELDS: dict[str, Schema] = {
    "id": TEXT,
    "holder": TEXT,
    "plugin": TEXT,
    "callable": nullable(TEXT),
    "reach": enum_of(REACHES),
    "scope": enum_of(("always", "session")),
    "session": nullable(TEXT),
    "digest": TEXT,
    "policies": TEXTS,
    "given_by": TEXT,
    "operator": nullable(TEXT),
    "given_at": DATE_TIME,
    "approval": nullable(TEXT),
    "revoked_at": nullable(DATE_TIME),
    "revoked_by": nullable(TEXT),
}

_COMMENT = describe(TEXT, "Kept with the answer.")
APPROVE_BODY = body_schema(
    {"comment": _COMMENT, "scope": enum_of(SCOPES), "reach": enum_of(REACHES), "params": OBJECT},
    example={"comment": "go on", "scope": "once"},
)
DENY_BODY = body_schema({"comment": _COMMENT}, example={"comment": "not today"})
EMPTY_BODY = body_schema({}, example={})

SCHEMAS: dict[str, Schema] = {
    "Approvals": object_schema({"approvals": array_of(object_schema(_APPROVAL_FIELDS)), "next": nullable(TEXT)}),
    "Approval": object_schema(
        {**_APPROVAL_FIELDS, "replaced_by": nullable(TEXT), "standing": nullable(TEXT)},
        description="A request for a person's yes.",
    ),
    "Standing": object_schema(_STANDING_FIELDS, description="A yes that lasts."),
    "StandingApprovals": object_schema({"standing": array_of(object_schema(_STANDING_FIELDS))}),
}


_ANSWER_RESPONSE = (
    "The request as it is now: approved, or pending where more people are needed. With `Paddock-As` the operator passes"
    " on what somebody confirmed or consented to, and is recorded beside them; an `action` or a `gate` they answer"
    " themselves."
)


class ApprovalRoutes:
    """Routes for approval requests and standing approvals."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/approvals",
                self.list_approvals,
                "List what waits for a person",
                "`approvals`: newest first; for whoever is no operator those that they asked for or may answer. Each"
                " with a `preview` of what would be done, without its parameters; `next`: what to give as `before` for"
                " those before them, or null.",
                query=TENANT_PARAM
                | {
                    "all": bool_param_spec("1: those that ended too."),
                    "limit": int_param_spec(
                        f"How many, at most {MAX_PAGE_SIZE}; {DEFAULT_PAGE_SIZE} where it is not given.",
                        DEFAULT_PAGE_SIZE,
                        MAX_PAGE_SIZE,
                    ),
                    "before": "Only those before the one with this id.",
                },
                response_schema=ref("Approvals"),
            ),
            ApiRoute(
                "GET",
                "/approvals/standing",
                self.list_standing,
                "List standing approvals",
                "`standing`.",
                query=TENANT_PARAM | {"all": bool_param_spec("1: those that were revoked too.")},
                response_schema=ref("StandingApprovals"),
            ),
            ApiRoute(
                "GET",
                "/approvals/{id}",
                self.show_approval,
                "Look at a request",
                "The request.",
                query=TENANT_PARAM,
                response_schema=ref("Approval"),
            ),
            ApiRoute(
                "POST",
                "/approvals/{id}/approve",
                self.approve,
                "Say yes",
                _ANSWER_RESPONSE,
                body_description="`comment`; `scope`: once, session or always, and `reach`: tool or plugin,"
                " for a yes that"
                " lasts; `params`: other parameters, which the yes is then to.",
                request_schema=APPROVE_BODY,
                response_schema=ref("Approval"),
                error_statuses=(409,),
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/approvals/{id}/deny",
                self.deny,
                "Say no",
                "The request.",
                body_description="`comment`: why.",
                request_schema=DENY_BODY,
                response_schema=ref("Approval"),
                error_statuses=(409,),
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/approvals/standing/{id}/revoke",
                self.revoke,
                "End a standing approval",
                "What it was before: `revoked_at` says when it was revoked already, or null.",
                body_description="Nothing.",
                request_schema=EMPTY_BODY,
                response_schema=ref("Standing"),
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
        ]

    async def list_approvals(self, request: Request) -> Response:
        principal = await self._acting_principal(request)
        limit, before = int_param(request, "limit", DEFAULT_PAGE_SIZE), request.query_params.get("before")
        approvals = await self._host.approvals.list_requests(
            principal.tenant, ended=bool_param(request, "all"), before=before, limit=limit, to=principal
        )
        return json_response(approvals_page(approvals, limit))

    async def list_standing(self, request: Request) -> Response:
        principal = await self._acting_principal(request)
        standing = await self._host.approvals.list_standing(
            principal.tenant, revoked=bool_param(request, "all"), to=principal
        )
        return json_response({"standing": standing})

    async def show_approval(self, request: Request) -> Response:
        principal = await self._acting_principal(request)
        return json_response(await self._host.approvals.find(principal.tenant, path_param(request, "id"), to=principal))

    async def approve(self, request: Request) -> Response:
        body = validated_body(request)
        context = await self._answer_context(request)
        approved = await self._host.approvals.approve(
            path_param(request, "id"),
            context.principal,
            through=impersonating_operator(context),
            comment=body.get("comment", ""),
            remember=parse_remember(body),
            payload=body.get("params"),
        )
        return json_response(approved)

    async def deny(self, request: Request) -> Response:
        body = validated_body(request)
        context = await self._answer_context(request)
        denied = await self._host.approvals.deny(
            path_param(request, "id"),
            context.principal,
            through=impersonating_operator(context),
            comment=body.get("comment", ""),
        )
        return json_response(denied)

    async def revoke(self, request: Request) -> Response:
        context, standing_id = await call_context(self._host, request), path_param(request, "id")
        principal = caller_of(request).principal
        if not is_tenant_operator(principal):
            visible = await self._host.approvals.list_standing(principal.tenant, revoked=True, to=principal)
            if not any(standing["id"] == standing_id for standing in visible):
                raise standing_not_found(standing_id)
        revoked = await self._host.approvals.revoke_standing(
            standing_id, context.principal, through=impersonating_operator(context)
        )
        return json_response(revoked)

    async def _answer_context(self, request: Request) -> CallContext:
        """Return the context of the answering caller.

        A request that the caller may not see is reported as not found; whether they may answer it is decided by the
        service.
        """
        context, principal = await call_context(self._host, request), caller_of(request).principal
        if not is_tenant_operator(principal):
            await self._host.approvals.find(principal.tenant, path_param(request, "id"), to=principal)
        return context

    async def _acting_principal(self, request: Request) -> Principal:
        return (await call_context(self._host, request)).principal


def approvals_page(approvals: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """Build a page of approval requests, with the cursor of the next page."""
    return {"approvals": approvals, "next": approvals[-1]["id"] if len(approvals) == limit else None}

"""`/approvals`: approval requests, the answers of people, and standing approvals."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from starlette.requests import Request

from paddock.approvals.model import ApprovalReach, ApprovalScope
from paddock.approvals.standing_approval import standing_not_found
from paddock.core.call import CallContext, Principal
from paddock.host.calls.approvals import (
    DEFAULT_PAGE_SIZE,
    MAX_PAGE_SIZE,
    ApprovalJson,
    ApprovalSummaryJson,
    StandingApprovalJson,
)
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.web.request_context import call_context, is_tenant_operator
from paddock.web.routing.body_parsers import parse_remember
from paddock.web.routing.route import (
    EMPTY_BODY,
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
from paddock.web.security.authenticate import caller_of


class ApprovalPageJson(TypedDict):
    """A page of approval requests, newest first."""

    approvals: list[ApprovalSummaryJson]
    next: Annotated[str | None, "The `before` of the next page; null on the last page."]


class StandingApprovalsJson(TypedDict):
    standing: list[StandingApprovalJson]


class ApproveBody(TypedDict):
    comment: NotRequired[Annotated[str, "Stored with the answer."]]
    scope: NotRequired[
        Annotated[
            ApprovalScope,
            "For how long the approval holds. By default `always` for a confirmation that may be remembered: until the"
            " plugin is upgraded or the approval revoked. Everything else is approved `once`.",
        ]
    ]
    reach: NotRequired[Annotated[ApprovalReach, "For how much of the plugin it holds; `tool` by default."]]
    params: NotRequired[Annotated[dict[str, Any], "Edited parameters, which are approved instead."]]


class DenyBody(TypedDict):
    comment: NotRequired[Annotated[str, "Stored with the answer."]]


_ANSWER_RESPONSE = (
    "The request: approved, or still pending if its quorum is not reached. With `Paddock-As` the operator passes on the"
    " answer of another person to a `confirmation` or `consent`, and both are recorded. Requests of kind `action` or"
    " `gate` must be answered in person, and are approved for exactly this call. A standing approval also approves the"
    " requests that wait already and that it covers: `also_approved`."
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
                "List approval requests",
                "A page of requests, newest first. Callers who are not operators see the requests that they made or may"
                " answer.",
                query=TENANT_PARAM
                | {
                    "all": bool_param_spec("1: include requests that ended."),
                    "limit": int_param_spec(
                        f"Maximum number of requests; {DEFAULT_PAGE_SIZE} by default, at most {MAX_PAGE_SIZE}.",
                        DEFAULT_PAGE_SIZE,
                        MAX_PAGE_SIZE,
                    ),
                    "before": "Only requests older than the one with this id.",
                },
            ),
            ApiRoute(
                "GET",
                "/approvals/standing",
                self.list_standing,
                "List standing approvals",
                "`standing` approvals, oldest first.",
                query=TENANT_PARAM | {"all": bool_param_spec("1: include revoked ones.")},
            ),
            ApiRoute(
                "GET",
                "/approvals/{id}",
                self.show_approval,
                "Show an approval request",
                "The request.",
                query=TENANT_PARAM,
            ),
            ApiRoute(
                "POST",
                "/approvals/{id}/approve",
                self.approve,
                "Approve a request",
                _ANSWER_RESPONSE,
                request_body=RequestBody(ApproveBody, {"comment": "go on", "scope": "once"}),
                error_statuses=(409,),
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/approvals/{id}/deny",
                self.deny,
                "Deny a request",
                "The request.",
                request_body=RequestBody(DenyBody, {"comment": "not today"}),
                error_statuses=(409,),
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/approvals/standing/{id}/revoke",
                self.revoke,
                "Revoke a standing approval",
                "The standing approval before this request: `revoked_at` is set if it was revoked already.",
                request_body=EMPTY_BODY,
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
        ]

    async def list_approvals(self, request: Request) -> JsonResponse[ApprovalPageJson]:
        principal = await self._acting_principal(request)
        limit, before = int_param(request, "limit", DEFAULT_PAGE_SIZE), request.query_params.get("before")
        approvals = await self._host.approvals.list_requests(
            principal.tenant, ended=bool_param(request, "all"), before=before, limit=limit, to=principal
        )
        return JsonResponse(approvals_page(approvals, limit))

    async def list_standing(self, request: Request) -> JsonResponse[StandingApprovalsJson]:
        principal = await self._acting_principal(request)
        standing = await self._host.approvals.list_standing(
            principal.tenant, revoked=bool_param(request, "all"), to=principal
        )
        return JsonResponse({"standing": standing})

    async def show_approval(self, request: Request) -> JsonResponse[ApprovalJson]:
        principal = await self._acting_principal(request)
        return JsonResponse(await self._host.approvals.find(principal.tenant, path_param(request, "id"), to=principal))

    async def approve(self, request: Request) -> JsonResponse[ApprovalJson]:
        body = validated_body(request, ApproveBody)
        context = await self._answer_context(request)
        approved = await self._host.approvals.approve(
            path_param(request, "id"),
            context.principal,
            through=impersonating_operator(context),
            comment=body.get("comment", ""),
            remember=parse_remember(body),
            payload=body.get("params"),
        )
        return JsonResponse(approved)

    async def deny(self, request: Request) -> JsonResponse[ApprovalJson]:
        body = validated_body(request, DenyBody)
        context = await self._answer_context(request)
        denied = await self._host.approvals.deny(
            path_param(request, "id"),
            context.principal,
            through=impersonating_operator(context),
            comment=body.get("comment", ""),
        )
        return JsonResponse(denied)

    async def revoke(self, request: Request) -> JsonResponse[StandingApprovalJson]:
        context, standing_id = await call_context(self._host, request), path_param(request, "id")
        principal = caller_of(request).principal
        if not is_tenant_operator(principal):
            visible = await self._host.approvals.list_standing(principal.tenant, revoked=True, to=principal)
            if not any(standing["id"] == standing_id for standing in visible):
                raise standing_not_found(standing_id)
        revoked = await self._host.approvals.revoke_standing(
            standing_id, context.principal, through=impersonating_operator(context)
        )
        return JsonResponse(revoked)

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


def approvals_page(approvals: list[ApprovalSummaryJson], limit: int) -> ApprovalPageJson:
    """Build a page of approval requests, with the cursor of the next page."""
    return {"approvals": approvals, "next": approvals[-1]["id"] if len(approvals) == limit else None}

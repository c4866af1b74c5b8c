"""People in the loop: what waits for them, and their answers."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.call import CallContext, Principal
from paddock.host.approving import LISTED, MOST_LISTED
from paddock.host.host import Host
from paddock.http.acting import context_of, passed_on_by, sees_all
from paddock.http.auth import caller_of
from paddock.http.checking import body_of
from paddock.http.endpoint import WHOSE, Endpoint, answer, count_of, flag, named, number, yes_or_no
from paddock.http.remembering import remembered
from paddock.http.schemas.approvals import APPROVE, DENY, NOTHING
from paddock.http.schemas.building import ref
from paddock.policy.approvals.standing import unknown

_ANSWERED = (
    "The request as it is now: approved, or pending where more people are needed. With `Paddock-As` the operator passes"
    " on what somebody confirmed or consented to, and is recorded beside them; an `action` or a `gate` they answer"
    " themselves."
)


class ApprovalRoutes:
    """Requests for a person's yes, and the yes that lasts."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/approvals",
                self.list_approvals,
                "List what waits for a person",
                "`approvals`: newest first; for whoever is no operator those that they asked for or may answer. Each"
                " with a `preview` of what would be done, without its parameters; `next`: what to give as `before` for"
                " those before them, or null.",
                query=WHOSE
                | {
                    "all": yes_or_no("1: those that ended too."),
                    "limit": count_of(
                        f"How many, at most {MOST_LISTED}; {LISTED} where it is not given.", LISTED, MOST_LISTED
                    ),
                    "before": "Only those before the one with this id.",
                },
                gives=ref("Approvals"),
            ),
            Endpoint(
                "GET",
                "/approvals/standing",
                self.list_standing,
                "List standing approvals",
                "`standing`.",
                query=WHOSE | {"all": yes_or_no("1: those that were revoked too.")},
                gives=ref("StandingApprovals"),
            ),
            Endpoint(
                "GET",
                "/approvals/{id}",
                self.show_approval,
                "Look at a request",
                "The request.",
                query=WHOSE,
                gives=ref("Approval"),
            ),
            Endpoint(
                "POST",
                "/approvals/{id}/approve",
                self.approve,
                "Say yes",
                _ANSWERED,
                body="`comment`; `scope`: once, session or always, and `reach`: tool or plugin, for a yes that lasts;"
                " `params`: other parameters, which the yes is then to.",
                takes=APPROVE,
                gives=ref("Approval"),
                fails=(409,),
                query=WHOSE,
                for_others=True,
            ),
            Endpoint(
                "POST",
                "/approvals/{id}/deny",
                self.deny,
                "Say no",
                "The request.",
                body="`comment`: why.",
                takes=DENY,
                gives=ref("Approval"),
                fails=(409,),
                query=WHOSE,
                for_others=True,
            ),
            Endpoint(
                "POST",
                "/approvals/standing/{id}/revoke",
                self.revoke,
                "End a standing approval",
                "What it was before: `revoked_at` says when it was revoked already, or null.",
                body="Nothing.",
                takes=NOTHING,
                gives=ref("Standing"),
                query=WHOSE,
                for_others=True,
            ),
        ]

    async def list_approvals(self, request: Request) -> Response:
        by = await self._by(request)
        limit, before = number(request, "limit", LISTED), request.query_params.get("before")
        found = await self._host.approving.listed(
            by.tenant, ended=flag(request, "all"), before=before, limit=limit, to=by
        )
        return answer(page_of(found, limit))

    async def list_standing(self, request: Request) -> Response:
        by = await self._by(request)
        found = await self._host.approving.standing(by.tenant, revoked=flag(request, "all"), to=by)
        return answer({"standing": found})

    async def show_approval(self, request: Request) -> Response:
        by = await self._by(request)
        return answer(await self._host.approving.find(by.tenant, named(request, "id"), to=by))

    async def approve(self, request: Request) -> Response:
        body = body_of(request)
        context = await self._answering(request)
        approved = await self._host.approving.approve(
            named(request, "id"),
            context.principal,
            through=passed_on_by(context),
            comment=body.get("comment", ""),
            remember=remembered(body),
            payload=body.get("params"),
        )
        return answer(approved)

    async def deny(self, request: Request) -> Response:
        body = body_of(request)
        context = await self._answering(request)
        denied = await self._host.approving.deny(
            named(request, "id"),
            context.principal,
            through=passed_on_by(context),
            comment=body.get("comment", ""),
        )
        return answer(denied)

    async def revoke(self, request: Request) -> Response:
        context, wanted = await context_of(self._host, request), named(request, "id")
        by = caller_of(request).principal
        if not sees_all(by):
            theirs = await self._host.approving.standing(by.tenant, revoked=True, to=by)
            if not any(one["id"] == wanted for one in theirs):
                raise unknown(wanted)
        revoked = await self._host.approving.revoke(wanted, context.principal, through=passed_on_by(context))
        return answer(revoked)

    async def _answering(self, request: Request) -> CallContext:
        """Who answers. What they may not know of is not found; whether they may answer the rest is decided there."""
        context, by = await context_of(self._host, request), caller_of(request).principal
        if not sees_all(by):
            await self._host.approving.find(by.tenant, named(request, "id"), to=by)
        return context

    async def _by(self, request: Request) -> Principal:
        return (await context_of(self._host, request)).principal


def page_of(approvals: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """A page of requests, and where the next one begins."""
    return {"approvals": approvals, "next": approvals[-1]["id"] if len(approvals) == limit else None}

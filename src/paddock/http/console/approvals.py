"""Requests for a person's yes: the inbox, each whole as it would be done, and the yes that lasts."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Conflict, Denied, Invalid, PaddockError, Problem
from paddock.host.host import Host
from paddock.http.acting import context_of, passed_on_by
from paddock.http.console.form_body import form_of
from paddock.http.console.forms.filled import as_sent
from paddock.http.console.page import Page, done, page
from paddock.http.endpoint import named
from paddock.http.remembering import remembered

_LISTED = 50


class ApprovalPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/approvals", self.inbox),
            Page("GET", "/approvals/standing", self.standing),
            Page("POST", "/approvals/standing/{id}/revoke", self.revoke),
            Page("GET", "/approvals/{id}", self.shown),
            Page("POST", "/approvals/{id}", self.answered),
        ]

    async def inbox(self, request: Request) -> Response:
        by = (await context_of(self._host, request)).principal
        ended, before = "ended" in request.query_params, request.query_params.get("before")
        found = await self._host.approving.listed(by.tenant, ended=ended, before=before, limit=_LISTED, to=by)
        after = found[-1]["id"] if len(found) == _LISTED else None
        return page(request, "approvals.html", {"approvals": found, "ended": ended, "after": after})

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(
        self, request: Request, *, text: str | None = None, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        by = (await context_of(self._host, request)).principal
        one = await self._host.approving.find(by.tenant, named(request, "id"), to=by)
        values = {"one": one, "text": text, "problems": problems or []}
        return page(request, "approval.html", values, status)

    async def answered(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        wanted, comment = named(request, "id"), sent.one("comment")
        approving = self._host.approving
        await approving.find(context.tenant, wanted, to=context.principal)  # what they may not know of is not found
        if sent.one("answer") != "yes":
            await approving.deny(wanted, context.principal, through=passed_on_by(context), comment=comment)
            return done(f"/approvals/{wanted}", "denied")
        text = sent.one("params") if "edited" in sent.texts else None
        try:
            payload: Any = None if text is None else as_sent(text)
            await approving.approve(
                wanted,
                context.principal,
                through=passed_on_by(context),
                comment=comment,
                remember=remembered({"scope": sent.one("scope") or "once", "reach": sent.one("reach") or "tool"}),
                payload=payload,
            )
        except ValueError as error:
            return await self._page(request, text=text, problems=[Problem("", f"this is no JSON: {error}")], status=422)
        except Invalid as wrong:
            return await self._page(request, text=text, problems=list(wrong.problems), status=422)
        except (Denied, Conflict) as refused:
            return await self._page(request, text=text, problems=[_as_problem(refused)], status=409)
        return done(f"/approvals/{wanted}", "approved")

    async def standing(self, request: Request) -> Response:
        by = (await context_of(self._host, request)).principal
        found = await self._host.approving.standing(by.tenant, revoked=False, to=by)
        return page(request, "standing.html", {"standing": found})

    async def revoke(self, request: Request) -> Response:
        context, wanted = await context_of(self._host, request), named(request, "id")
        theirs = await self._host.approving.standing(context.tenant, revoked=True, to=context.principal)
        if any(one["id"] == wanted for one in theirs):
            await self._host.approving.revoke(wanted, context.principal, through=passed_on_by(context))
        return done("/approvals/standing", "revoked")


def _as_problem(error: PaddockError) -> Problem:
    return Problem("", error.message, error.hint, error.error_code)

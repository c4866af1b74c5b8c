"""Requests for a person's yes: the inbox, each whole as it would be done, and the yes that lasts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Conflict, Denied, Invalid, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.http.acting import context_of, passed_on_by
from paddock.http.console.approval_form import changing_form
from paddock.http.console.form_body import form_of
from paddock.http.console.forms.filled import RAW, value_in
from paddock.http.console.forms.shape import shape_of
from paddock.http.console.page import Page, done, page
from paddock.http.endpoint import named
from paddock.http.remembering import remembered
from paddock.policy.approvals.standing import unknown

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
        self,
        request: Request,
        *,
        changed: Any = None,
        text: str | None = None,
        comment: str = "",
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        """The request, and what somebody made of it so far: `changed` in a form, `text` as JSON."""
        context = await context_of(self._host, request)
        one = await self._host.approving.find(context.tenant, named(request, "id"), to=context.principal)
        preview = one["preview"]
        params = preview.get("params")
        schema = await self._schema(preview, context.tenant) if one["state"] == "pending" else None
        edited = changed is not None or text is not None
        form = changing_form(schema, params, params if changed is None else changed, problems) if text is None else None
        written = text if text is not None else json.dumps(params if changed is None else changed, indent=2)
        values = {"one": one, "form": form, "written": written, "edited": edited, "comment": comment}
        elsewhere = () if form is not None and edited else tuple(problems)
        return page(request, "approval.html", {**values, "problems": elsewhere}, status)

    async def _schema(self, preview: Mapping[str, Any], tenant: Tenant) -> Mapping[str, Any] | None:
        """What the tool takes; nothing where it is gone, or there is none."""
        try:
            tools = (await self._host.tools(str(preview.get("plugin", "")), tenant=tenant))["tools"]
        except PaddockError:
            return None
        return next((tool["input_schema"] for tool in tools if tool["name"] == preview.get("callable")), None)

    async def answered(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        wanted, comment = named(request, "id"), sent.one("comment")
        approving = self._host.approving
        found = await approving.find(context.tenant, wanted, to=context.principal)  # or they may not know of it
        payload: Any = None
        text = sent.one(RAW) if RAW in sent.texts else None
        problems: list[Problem] = []
        if "edited" in sent.texts:
            schema = await self._schema(found["preview"], context.tenant)
            payload, problems = value_in(shape_of(dict(schema or {})), sent.texts)
        what = {"changed": payload if text is None else None, "text": text if "edited" in sent.texts else None}
        match sent.one("answer"):
            case "no":
                await approving.deny(wanted, context.principal, through=passed_on_by(context), comment=comment)
                return done(f"/approvals/{wanted}", "denied")
            case "yes" if not problems:
                pass
            case _:  # somebody pressed Enter, or wrote what cannot be read
                return await self._page(request, comment=comment, problems=problems, status=422, **what)
        scope = sent.one("scope") or "once"
        reach = sent.one("reach") if scope != "once" else ""  # a yes for once goes no further
        try:
            now = await approving.approve(
                wanted,
                context.principal,
                through=passed_on_by(context),
                comment=comment,
                remember=remembered({"scope": scope, "reach": reach or "tool"}),
                payload=payload,
            )
        except Invalid as wrong:
            return await self._page(request, comment=comment, problems=wrong.problems, status=422, **what)
        except (Denied, Conflict) as refused:
            told = [refused.as_problem()]
            return await self._page(request, comment=comment, problems=told, status=409, **what)
        # One that was changed is another request, which somebody else may have to answer.
        waits = "approval_counted" if now["id"] == wanted else "approval_changed"
        return done(f"/approvals/{now['id']}", waits if now["state"] == "pending" else "approved")

    async def standing(self, request: Request) -> Response:
        by = (await context_of(self._host, request)).principal
        found = await self._host.approving.standing(by.tenant, revoked=False, to=by)
        return page(request, "standing.html", {"standing": found, "ended": False})

    async def revoke(self, request: Request) -> Response:
        context, wanted = await context_of(self._host, request), named(request, "id")
        theirs = await self._host.approving.standing(context.tenant, revoked=True, to=context.principal)
        if not any(one["id"] == wanted for one in theirs):
            raise unknown(wanted)
        await self._host.approving.revoke(wanted, context.principal, through=passed_on_by(context))
        return done("/approvals/standing", "revoked")

"""How what somebody asks for is changed before it is approved: in a form, where that loses nothing. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response

from paddock.approvals.standing import standing_not_found
from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import RAW_JSON_FIELD, parse_form
from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import Conflict, Denied, Invalid, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_remember
from paddock.web.routing.route import path_param

_EDITABLE_CONTROLS: Final = ("text", "long_text", "lines", "number", "range", "choice", "checks", "toggle")


def build_edit_form(
    schema: Mapping[str, Any] | None, params: Any, value: Any, problems: Sequence[Problem] = ()
) -> FormView | None:
    """A form with what is to be changed in it; None where only JSON shows all of it.

    A parameter without a control would be lost: whoever approves must not take away what they never saw.

    Args:
        schema: What the tool takes, where that is known.
        params: What was asked for.
        value: What is in the form: the same, or what somebody made of it.
        problems: What is wrong with it.
    """
    if schema is None or not isinstance(params, dict):
        return None
    shape = build_control(dict(schema))
    return build_form(shape, value, problems) if _covers_all_params(shape, cast("dict[str, Any]", params)) else None


def _covers_all_params(shape: FormControl, params: Mapping[str, Any]) -> bool:
    if shape.control != "group":
        return False
    shown = {name for name, one in shape.fields if one.control in _EDITABLE_CONTROLS and not one.hints.hidden}
    return all(name in shown for name in (*params, *(name for name, _ in shape.fields)))


_PAGE_SIZE = 50


class ApprovalPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/approvals", self.show_inbox),
            Page("GET", "/approvals/standing", self.show_standing),
            Page("POST", "/approvals/standing/{id}/revoke", self.revoke_standing),
            Page("GET", "/approvals/{id}", self.show),
            Page("POST", "/approvals/{id}", self.answer),
        ]

    async def show_inbox(self, request: Request) -> Response:
        by = (await call_context(self._host, request)).principal
        ended, before = "ended" in request.query_params, request.query_params.get("before")
        found = await self._host.approvals.list_requests(by.tenant, ended=ended, before=before, limit=_PAGE_SIZE, to=by)
        after = found[-1]["id"] if len(found) == _PAGE_SIZE else None
        return render_page(request, "approvals.html", {"approvals": found, "ended": ended, "after": after})

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
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
        context = await call_context(self._host, request)
        one = await self._host.approvals.find(context.tenant, path_param(request, "id"), to=context.principal)
        preview = one["preview"]
        params = preview.get("params")
        schema = await self._find_input_schema(preview, context.tenant) if one["state"] == "pending" else None
        edited = changed is not None or text is not None
        form = (
            build_edit_form(schema, params, params if changed is None else changed, problems) if text is None else None
        )
        written = text if text is not None else json.dumps(params if changed is None else changed, indent=2)
        values = {"one": one, "form": form, "written": written, "edited": edited, "comment": comment}
        elsewhere = () if form is not None and edited else tuple(problems)
        return render_page(request, "approval.html", {**values, "problems": elsewhere}, status)

    async def _find_input_schema(self, preview: Mapping[str, Any], tenant: Tenant) -> Mapping[str, Any] | None:
        """What the tool takes; nothing where it is gone, or there is none."""
        try:
            tools = (await self._host.tools(str(preview.get("plugin", "")), tenant=tenant))["tools"]
        except PaddockError:
            return None
        return next((tool["input_schema"] for tool in tools if tool["name"] == preview.get("callable")), None)

    async def answer(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        wanted, comment = path_param(request, "id"), sent.last_text("comment")
        approving = self._host.approvals
        found = await approving.find(context.tenant, wanted, to=context.principal)  # or they may not know of it
        payload: Any = None
        text = sent.last_text(RAW_JSON_FIELD) if RAW_JSON_FIELD in sent.texts else None
        problems: list[Problem] = []
        if "edited" in sent.texts:
            schema = await self._find_input_schema(found["preview"], context.tenant)
            payload, problems = parse_form(build_control(dict(schema or {})), sent.texts)
        what = {"changed": payload if text is None else None, "text": text if "edited" in sent.texts else None}
        match sent.last_text("answer"):
            case "no":
                await approving.deny(
                    wanted, context.principal, through=impersonating_operator(context), comment=comment
                )
                return redirect_with_flash(f"/approvals/{wanted}", "denied")
            case "yes" if not problems:
                pass
            case _:  # somebody pressed Enter, or wrote what cannot be read
                return await self._render(request, comment=comment, problems=problems, status=422, **what)
        scope = sent.last_text("scope") or "once"
        reach = sent.last_text("reach") if scope != "once" else ""  # a yes for once goes no further
        try:
            now = await approving.approve(
                wanted,
                context.principal,
                through=impersonating_operator(context),
                comment=comment,
                remember=parse_remember({"scope": scope, "reach": reach or "tool"}),
                payload=payload,
            )
        except Invalid as wrong:
            return await self._render(request, comment=comment, problems=wrong.problems, status=422, **what)
        except (Denied, Conflict) as refused:
            told = [refused.as_problem()]
            return await self._render(request, comment=comment, problems=told, status=409, **what)
        # One that was changed is another request, which somebody else may have to answer.
        waits = "approval_counted" if now["id"] == wanted else "approval_changed"
        return redirect_with_flash(f"/approvals/{now['id']}", waits if now["state"] == "pending" else "approved")

    async def show_standing(self, request: Request) -> Response:
        by = (await call_context(self._host, request)).principal
        found = await self._host.approvals.list_standing(by.tenant, revoked=False, to=by)
        return render_page(request, "standing.html", {"standing": found, "ended": False})

    async def revoke_standing(self, request: Request) -> Response:
        context, wanted = await call_context(self._host, request), path_param(request, "id")
        theirs = await self._host.approvals.list_standing(context.tenant, revoked=True, to=context.principal)
        if not any(one["id"] == wanted for one in theirs):
            raise standing_not_found(wanted)
        await self._host.approvals.revoke_standing(wanted, context.principal, through=impersonating_operator(context))
        return redirect_with_flash("/approvals/standing", "revoked")

"""Pages for approval requests: inbox, one request with its answer form, and standing approvals.

Parameters can be changed before approval: in a form if that loses nothing, else as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response

from paddock.approvals.standing_approval import standing_not_found
from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import RAW_JSON_FIELD, parse_form
from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.console.templates import KEY_LABELS
from paddock.core.errors import Conflict, Denied, Invalid, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.host.calls.approvals import ApprovalJson
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_remember
from paddock.web.routing.route import path_param

_EDITABLE_CONTROLS: Final = ("text", "long_text", "lines", "number", "range", "choice", "checks", "toggle")
_PAGE_SIZE = 50


class ApprovalPages:
    """Approval inbox, requests and standing approvals."""

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
        principal = (await call_context(self._host, request)).principal
        ended, before = "ended" in request.query_params, request.query_params.get("before")
        approvals = await self._host.approvals.list_requests(
            principal.tenant, ended=ended, before=before, limit=_PAGE_SIZE, to=principal
        )
        next_cursor = approvals[-1]["id"] if len(approvals) == _PAGE_SIZE else None
        values = {"approvals": approvals, "ended": ended, "after": next_cursor}
        labels = await self._host.identity.api_keys.labels(principal.tenant)
        return render_page(request, "approvals.html", {**values, KEY_LABELS: labels})

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
        """Render a request with the edits so far: `changed` from a form, `text` as JSON."""
        context = await call_context(self._host, request)
        approval = await self._host.approvals.find(context.tenant, path_param(request, "id"), to=context.principal)
        preview = approval["preview"]
        params = preview.get("params")
        schema = await self._find_input_schema(preview, context.tenant) if approval["state"] == "pending" else None
        edited = changed is not None or text is not None
        form = (
            build_edit_form(schema, params, params if changed is None else changed, problems) if text is None else None
        )
        json_text = text if text is not None else json.dumps(params if changed is None else changed, indent=2)
        values = {"one": approval, "form": form, "written": json_text, "edited": edited, "comment": comment}
        elsewhere = () if form is not None and edited else tuple(problems)
        labels = await self._host.identity.api_keys.labels(context.tenant)
        return render_page(request, "approval.html", {**values, "problems": elsewhere, KEY_LABELS: labels}, status)

    async def _find_input_schema(self, preview: Mapping[str, Any], tenant: Tenant) -> Mapping[str, Any] | None:
        """Return the tool's input schema; None if it has none or is gone."""
        try:
            tools = (await self._host.plugins.features.tools(str(preview.get("plugin", "")), tenant=tenant))["tools"]
        except PaddockError:
            return None
        schema = next((tool["input_schema"] for tool in tools if tool["name"] == preview.get("callable")), None)
        return schema if isinstance(schema, Mapping) else None

    async def answer(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        approval_id, comment = path_param(request, "id"), form.last_text("comment")
        approvals = self._host.approvals
        approval = await approvals.find(
            context.tenant, approval_id, to=context.principal
        )  # raises NotFound if the caller may not see it
        payload: Any = None
        text = form.last_text(RAW_JSON_FIELD) if RAW_JSON_FIELD in form.texts else None
        problems: list[Problem] = []
        if "edited" in form.texts:
            schema = await self._find_input_schema(approval["preview"], context.tenant)
            payload, problems = parse_form(build_control(dict(schema or {})), form.texts)
        edits = {"changed": payload if text is None else None, "text": text if "edited" in form.texts else None}
        match form.last_text("answer"):
            case "no":
                await approvals.deny(
                    approval_id, context.principal, through=impersonating_operator(context), comment=comment
                )
                return redirect_with_flash(f"/approvals/{approval_id}", "denied")
            case "yes" if not problems:
                pass
            case _:  # submitted with Enter, or the edit is invalid
                return await self._render(request, comment=comment, problems=problems, status=422, **edits)
        scope = form.last_text("scope")  # only where there is a choice
        reach = form.last_text("reach") if scope != "once" else ""  # reach does not apply to a single approval
        try:
            answered = await approvals.approve(
                approval_id,
                context.principal,
                through=impersonating_operator(context),
                comment=comment,
                remember=parse_remember({"scope": scope, "reach": reach or "tool"}) if scope else None,
                payload=payload,
            )
        except Invalid as invalid:
            return await self._render(request, comment=comment, problems=invalid.problems, status=422, **edits)
        except (Denied, Conflict) as error:
            error_problems = [error.as_problem()]
            return await self._render(request, comment=comment, problems=error_problems, status=409, **edits)
        return redirect_with_flash(f"/approvals/{answered['id']}", _approved_message(answered, approval_id))

    async def show_standing(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        standing = await self._host.approvals.list_standing(principal.tenant, revoked=False, to=principal)
        labels = await self._host.identity.api_keys.labels(principal.tenant)
        return render_page(request, "standing.html", {"standing": standing, KEY_LABELS: labels})

    async def revoke_standing(self, request: Request) -> Response:
        context, standing_id = await call_context(self._host, request), path_param(request, "id")
        visible = await self._host.approvals.list_standing(context.tenant, revoked=True, to=context.principal)
        if not any(standing["id"] == standing_id for standing in visible):
            raise standing_not_found(standing_id)
        await self._host.approvals.revoke_standing(
            standing_id, context.principal, through=impersonating_operator(context)
        )
        return redirect_with_flash("/approvals/standing", "revoked")


def _approved_message(answered: ApprovalJson, approval_id: str) -> str:
    """Return the code of the message for the person who approved a request."""
    if answered["state"] == "pending":
        # An edited request is a new one, which another person may have to answer.
        return "approval_counted" if answered["id"] == approval_id else "approval_changed"
    if answered["remember"] == "never":
        return "approved"
    return {"once": "approved_once", "session": "approved_session", "always": "approved_lasting"}[
        answered["answers"][-1]["scope"]
    ]


def build_edit_form(
    schema: Mapping[str, Any] | None, params: Any, value: Any, problems: Sequence[Problem] = ()
) -> FormView | None:
    """Build a form for editing the parameters; None if only JSON can show all of them.

    A parameter without a control would be lost: approvers must not remove what they never saw.

    Args:
        schema: The tool's input schema, if known.
        params: The requested parameters.
        value: The values in the form: the requested ones, or an edited version.
        problems: Problems of the edited version.
    """
    if schema is None or not isinstance(params, dict):
        return None
    shape = build_control(dict(schema))
    return build_form(shape, value, problems) if _covers_all_params(shape, cast("dict[str, Any]", params)) else None


def _covers_all_params(shape: FormControl, params: Mapping[str, Any]) -> bool:
    if shape.control != "group":
        return False
    editable = {
        name for name, control in shape.fields if control.control in _EDITABLE_CONTROLS and not control.hints.hidden
    }
    return all(name in editable for name in (*params, *(name for name, _ in shape.fields)))

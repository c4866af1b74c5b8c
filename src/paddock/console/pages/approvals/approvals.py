"""Pages for approval requests: one request with its answer form, all requests, and standing approvals.

Inputs can be edited before approval: in fields if that loses nothing, else as JSON. An edited version is approved only
after its difference was shown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.approvals.standing_approval import standing_not_found
from paddock.console.forms.input_edits import InputEdits, build_edit_form, input_titles, read_edits, view_inputs
from paddock.console.forms.parse import RAW_JSON_FIELD
from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.console.pages.inbox.outcome import OutcomeView, outcome_fragments, outcome_of, own_outcome
from paddock.console.text.inbox_text import danger_texts
from paddock.console.text.input_diff import InputDifference, compare_inputs
from paddock.core.call import CallContext, Principal
from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict, Denied, Invalid, NotFound, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.core.schema.compile import compile_schema
from paddock.host.calls.approvals import ApprovalJson
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.host.inbox.item import InboxKind
from paddock.host.inbox.source import InboxQuery
from paddock.manifest.effects import risk_of_effects
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_remember
from paddock.web.routing.route import path_param
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, event_stream

_PAGE_SIZE: Final = 50
_MAX_NEIGHBOURS: Final = 200  # of the reader's own requests, for "1 of 3"
_REQUEST_KINDS: Final = frozenset({InboxKind.APPROVAL, InboxKind.CONSENT})


class InboxPlace(Struct, frozen=True):
    """Where a request stands among those that the reader may answer.

    Attributes:
        number, total: As in "1 of 3"; 0 if the reader may not answer it.
        next: The request after it, from the first again after the last; empty if there is no other.
    """

    number: int = 0
    total: int = 0
    next: str = ""


class ApprovalPages:
    """Requests, their answers, and standing approvals."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/approvals", self.redirect_to_inbox),
            Page("GET", "/approvals/history", self.show_history),
            Page("GET", "/approvals/standing", self.show_standing),
            Page("POST", "/approvals/standing/{id}/revoke", self.revoke_standing),
            Page("GET", "/approvals/{id}", self.show),
            Page("GET", "/approvals/{id}/live", self.stream),
            Page("POST", "/approvals/{id}", self.answer),
        ]

    async def redirect_to_inbox(self, request: Request) -> Response:
        return RedirectResponse("/approvals/history" if "ended" in request.query_params else "/inbox", 303)

    async def show_history(self, request: Request) -> Response:
        context, before = await call_context(self._host, request), request.query_params.get("before")
        principal = context.principal
        approvals = await self._host.approvals.list_requests(
            principal.tenant,
            ended=True,
            before=before,
            limit=_PAGE_SIZE,
            to=principal,
            short_params=True,
        )
        next_cursor = approvals[-1]["id"] if len(approvals) == _PAGE_SIZE else None
        rows = [outcome_of(self._host, approval, context) for approval in approvals]
        values = {"rows": rows, "after": next_cursor}
        return render_page(request, "approvals/approvals.html", values)

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def stream(self, request: Request) -> Response:
        context, approval_id = await call_context(self._host, request), path_param(request, "id")
        await self._host.approvals.find(context.tenant, approval_id, to=context.principal)
        fragments = outcome_fragments(self._host, approval_id, context)
        return event_stream(fragments, self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S)

    async def _render(
        self,
        request: Request,
        *,
        edits: InputEdits | None = None,
        text: str | None = None,
        comment: str = "",
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        """Render a request with the edits so far; `text` is JSON that a person wrote."""
        context = await call_context(self._host, request)
        approval = await self._host.approvals.find(context.tenant, path_param(request, "id"), to=context.principal)
        preview, pending = approval["preview"], approval["state"] == "pending"
        params: Mapping[str, Any] = preview.get("params", {})
        schema = await self._find_input_schema(preview, context.tenant)
        titles = input_titles(schema)
        edited = params if edits is None or edits.value is None else edits.value
        form = build_edit_form(schema, params, edited, problems) if pending and text is None else None
        values: dict[str, Any] = {
            "one": approval,
            "form": form,
            "inputs": view_inputs(params, titles, form, edited),
            "written": text if text is not None else json.dumps(edited, indent=2, ensure_ascii=False),
            "writing": edits is not None,
            "comment": comment,
            "problems": () if form is not None and form.wrong and edits is not None else tuple(problems),
            "dangers": danger_texts(approval["effects"]),
            "risk": risk_of_effects(approval["effects"]),
            "refusal": await self._host.approvals.refusal(approval["id"], context.principal) if pending else None,
            "place": await self._place(context.principal, approval["id"]) if pending else InboxPlace(),
            "outcome": outcome_of(self._host, approval, context),
            "previous": await self._previous_outcome(request, context),
            "differences": await self._differences_from_replaced(approval, titles, context),
        }
        return render_page(request, "approvals/approval.html", values, status)

    def _render_review(
        self, request: Request, approval: ApprovalJson, payload: Any, titles: Mapping[str, str], form: SubmittedForm
    ) -> Response:
        """Render the difference of an edited version, to be approved as it is."""
        differences = compare_inputs(approval["preview"].get("params", {}), payload, titles)
        values = {
            "one": approval,
            "differences": differences,
            "payload": json.dumps(payload, ensure_ascii=False),
            "reviewed": hash_of(payload),
            "dangers": danger_texts(approval["effects"]),
            "risk": risk_of_effects(approval["effects"]),
            "comment": form.last_text("comment"),
            "scope": form.last_text("scope"),
            "reach": form.last_text("reach"),
        }
        return render_page(request, "approvals/approval_review.html", values)

    async def _place(self, principal: Principal, approval_id: str) -> InboxPlace:
        page = await self._host.inbox.page(InboxQuery(principal, _REQUEST_KINDS, limit=_MAX_NEIGHBOURS))
        ids = [item.id for item in page.items]
        if approval_id not in ids:
            return InboxPlace(next=ids[0] if ids else "")
        index = ids.index(approval_id)
        following = (ids[index + 1 :] + ids[:index])[:1]
        total = len(ids)
        if page.next is not None:
            counts = await self._host.inbox.counts(principal)
            total = sum(counts.by_kind[kind] for kind in _REQUEST_KINDS)
        return InboxPlace(index + 1, total, following[0] if following else "")

    async def _previous_outcome(self, request: Request, context: CallContext) -> OutcomeView | None:
        """Return the outcome of the request that was answered before this one opened by itself."""
        previous = request.query_params.get("after", "")
        if not previous or previous == path_param(request, "id"):
            return None
        return await own_outcome(self._host, previous, context)

    async def _differences_from_replaced(
        self, approval: ApprovalJson, titles: Mapping[str, str], context: CallContext
    ) -> Sequence[InputDifference]:
        """Return what was edited in the request that this one replaced, if the reader may see that."""
        if approval["replaces"] is None:
            return ()
        try:
            replaced = await self._host.approvals.find(context.tenant, approval["replaces"], to=context.principal)
        except NotFound:
            return ()
        return compare_inputs(replaced["preview"].get("params", {}), approval["preview"].get("params", {}), titles)

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
        place = await self._place(context.principal, approval_id)
        if form.last_text("answer") == "no":
            denied = await approvals.deny(
                approval_id, context.principal, through=impersonating_operator(context), comment=comment
            )
            return _redirect_to_next(denied, place, "denied")
        schema = await self._find_input_schema(approval["preview"], context.tenant)
        edits = read_edits(schema, approval["preview"].get("params", {}), form.texts)
        text = form.last_text(RAW_JSON_FIELD) if edits.problems and RAW_JSON_FIELD in form.texts else None
        problems = list(edits.problems)
        if edits.value is not None and not problems:
            problems = compile_schema(schema or {}).errors(edits.value)
        if form.last_text("answer") != "yes" or problems:  # submitted with Enter, or the edit is invalid
            return await self._render(request, edits=edits, text=text, comment=comment, problems=problems, status=422)
        if edits.value is not None and form.last_text("reviewed") != hash_of(edits.value):
            return self._render_review(request, approval, edits.value, input_titles(schema), form)
        scope = form.last_text("scope")  # only where there is a choice
        reach = form.last_text("reach") if scope != "once" else ""  # reach does not apply to a single approval
        try:
            answered = await approvals.approve(
                approval_id,
                context.principal,
                through=impersonating_operator(context),
                comment=comment,
                remember=parse_remember({"scope": scope, "reach": reach or "tool"}) if scope else None,
                payload=edits.value,
            )
        except Invalid as invalid:
            problems = invalid.problems
            return await self._render(request, edits=edits, comment=comment, problems=problems, status=422)
        except (Denied, Conflict) as error:
            problems = [error.as_problem()]
            return await self._render(request, edits=edits, comment=comment, problems=problems, status=409)
        return _redirect_to_next(answered, place, _approved_message(answered, approval_id))

    async def show_standing(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        standing = await self._host.approvals.list_standing(principal.tenant, revoked=False, to=principal)
        return render_page(request, "approvals/standing.html", {"standing": standing})

    async def revoke_standing(self, request: Request) -> Response:
        context, standing_id = await call_context(self._host, request), path_param(request, "id")
        visible = await self._host.approvals.list_standing(context.tenant, revoked=True, to=context.principal)
        if not any(standing["id"] == standing_id for standing in visible):
            raise standing_not_found(standing_id)
        await self._host.approvals.revoke_standing(
            standing_id, context.principal, through=impersonating_operator(context)
        )
        return redirect_with_flash("/approvals/standing", "revoked")


def _redirect_to_next(answered: ApprovalJson, place: InboxPlace, message_code: str) -> Response:
    """Redirect to the next request, with the outcome of this one; to this one if it was the last."""
    if not place.next:
        return redirect_with_flash(f"/approvals/{quote(answered['id'])}", message_code)
    return redirect_with_flash(f"/approvals/{quote(place.next)}?after={quote(answered['id'])}", message_code)


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

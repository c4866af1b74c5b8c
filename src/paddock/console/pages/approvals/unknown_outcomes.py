"""Calls of which nobody knows whether they happened: what was asked exactly, what is known, and saying what became."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import Busy, Conflict, Invalid, Problem
from paddock.gate.idempotency.resolve import MAX_COMMENT_CHARS, record_json
from paddock.gate.idempotency.states import EffectState
from paddock.host.calling.unknown_outcomes import UnresolvedEffect
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.web.request_context import call_context
from paddock.web.routing.json_parser import parse_json_value
from paddock.web.routing.route import OPERATOR, path_param

_PAGE_SIZE: Final = 50
_RECOVERY_TEXTS: Final = {
    "atomic": "Its plugin keeps a note of it with its own data, which Paddock looks for.",
    "probe": "Its plugin can look whether it happened, and Paddock asks it to.",
    "native_key": "The service behind it knows the key of the call. Paddock makes it again, and it happens once.",
    "none": "Its plugin offers no way to find out. Somebody has to look.",
}
_RESOLVER_TEXTS: Final = {
    "atomic": "its plugin's own data",
    "native_key": "the service behind it",
    "probe": "its plugin, which looked",
    "human": "a person",
}


class UnknownOutcomePages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/doubts", self.show_list, OPERATOR),
            Page("GET", "/doubts/{call}", self.show, OPERATOR),
            Page("POST", "/doubts/{call}", self.resolve, OPERATOR),
            Page("POST", "/doubts/{call}/look", self.recover_now, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        resolved, after = "resolved" in request.query_params, request.query_params.get("after")
        found = await self._host.unknown_outcomes.list_effects(
            context.tenant, resolved=resolved, after=after, limit=_PAGE_SIZE
        )
        further = found[-1].effect.call if len(found) == _PAGE_SIZE else None
        values = {"doubts": [outcome_values(one) for one in found], "resolved": resolved, "further": further}
        return render_page(request, "doubts.html", values)

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
        self,
        request: Request,
        *,
        sent: SubmittedForm | None = None,
        problems: list[Problem] | None = None,
        status: int = 200,
    ) -> Response:
        context = await call_context(self._host, request)
        one = outcome_values(await self._host.unknown_outcomes.find(context.tenant, path_param(request, "call")))
        typed = {name: sent.last_text(name) if sent else "" for name in ("answer", "comment", "result")}
        mistakes: dict[str, list[Problem]] = {}
        for problem in problems or ():
            field = problem.path if problem.path in ("answer", "comment", "sure") else "result"
            mistakes.setdefault(field, []).append(problem)
        values = {"one": one, "typed": typed, "mistakes": mistakes, "longest": MAX_COMMENT_CHARS}
        return render_page(request, "doubt.html", values, status)

    async def resolve(self, request: Request) -> Response:
        context, sent, call = (
            await call_context(self._host, request),
            await read_form(request),
            path_param(request, "call"),
        )
        by = require_interactive_person(context.principal)
        result, problems = parse_resolution(sent)
        if problems:
            return await self._render(request, sent=sent, problems=problems, status=422)
        try:
            await self._host.unknown_outcomes.resolve(
                context.tenant,
                call,
                happened=sent.last_text("answer") == "happened",
                result=result,
                comment=sent.last_text("comment").strip(),
                by=by.id,
            )
        except Invalid as wrong:
            return await self._render(request, sent=sent, problems=list(wrong.problems), status=422)
        except Conflict as known:  # somebody was quicker, or the host found out meanwhile
            if known.error_code != "effect.not_in_doubt":
                raise
            return redirect_with_flash(_outcome_path(call), "doubt_known")
        return redirect_with_flash(_outcome_path(call), "resolved")

    async def recover_now(self, request: Request) -> Response:
        context, call = await call_context(self._host, request), path_param(request, "call")
        try:
            begun = await self._host.unknown_outcomes.probe_now(context.tenant, call)
        except Busy:
            return redirect_with_flash(_outcome_path(call), "doubt_busy")
        except Conflict as known:
            if known.error_code != "effect.not_in_doubt":
                raise
            return redirect_with_flash(_outcome_path(call), "doubt_known")
        return redirect_with_flash(_outcome_path(call), "doubt_looking" if begun else "doubt_busy")


def parse_resolution(sent: SubmittedForm) -> tuple[Any, list[Problem]]:
    """The result that somebody gives, and every mistake of the form. Pure."""
    problems: list[Problem] = []
    answer, text, result = sent.last_text("answer"), sent.last_text("result").strip(), None
    if answer not in ("happened", "not_happened"):
        problems.append(Problem("answer", "Choose one of the two."))
    if not sent.last_text("comment").strip():
        problems.append(Problem("comment", "Say how you know. It stays in the ledger."))
    elif len(sent.last_text("comment").strip()) > MAX_COMMENT_CHARS:
        problems.append(Problem("comment", f"Keep it below {MAX_COMMENT_CHARS:,} characters."))
    if not sent.last_text("sure"):
        problems.append(Problem("sure", "Confirm that you looked."))
    if text and answer == "not_happened":
        problems.append(Problem("result", "A result is only for what happened. Leave it empty."))
    elif text:
        try:
            result = parse_json_value(text.encode())
        except Invalid as error:
            problems += [Problem("result", f"This {one.message}") for one in error.problems]
    return result, problems


def outcome_values(doubt: UnresolvedEffect) -> dict[str, Any]:
    """One for people. Pure."""
    told = record_json(doubt.effect)
    open_, error = doubt.effect.state is EffectState.IN_DOUBT, doubt.effect.error or {}
    happened = doubt.effect.state is EffectState.SUCCEEDED
    return told | {
        "open": open_,
        "by_itself": doubt.by_itself,
        "search": doubt.search,
        "way": _RECOVERY_TEXTS.get(told["recovery"], told["recovery"]),
        "found": "" if open_ else "It happened" if happened else "It did not happen",
        "found_by": told["resolved_by"] or _RESOLVER_TEXTS.get(str(told["resolution"] or ""), ""),
        "why": str(error.get("message") or "") if open_ else "",
        "own_key": told["key"] == told["call_id"],
        "can_look": open_ and told["recovery"] != "none" and (doubt.search is None or not doubt.search.now),
    }


def _outcome_path(call: str) -> str:
    return f"/doubts/{quote(call, safe='')}"

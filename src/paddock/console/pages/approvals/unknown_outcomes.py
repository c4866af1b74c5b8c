"""Pages for calls with an unknown outcome: list, details, and a form to resolve one."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import Busy, Conflict, Invalid, Problem
from paddock.gate.idempotency.manual_resolution import MAX_COMMENT_CHARS, record_json
from paddock.gate.idempotency.states import EffectState
from paddock.host.calls.unknown_outcomes import UnresolvedEffect
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.web.request_context import call_context
from paddock.web.routing.json_parser import parse_json_value
from paddock.web.routing.route import OPERATOR, path_param

_PAGE_SIZE: Final = 50
_RECOVERY_TEXTS: Final = {
    "atomic": "The plugin records the call with its own data. Paddock looks for that record.",
    "probe": "The plugin can check whether it happened. Paddock asks it.",
    "native_key": "The service recognizes the call by its key: Paddock repeats it, and it happens once.",
    "none": "The plugin offers no way to find out. A person has to check.",
}
_RESOLVER_TEXTS: Final = {
    "atomic": "the plugin’s record",
    "native_key": "repeating the call",
    "probe": "a check by the plugin",
    "human": "a person",
}


class UnknownOutcomePages:
    """Lists calls with an unknown outcome, and lets operators resolve or probe them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/unknown-outcomes", self.show_list, OPERATOR),
            Page("GET", "/unknown-outcomes/{call}", self.show, OPERATOR),
            Page("POST", "/unknown-outcomes/{call}", self.resolve, OPERATOR),
            Page("POST", "/unknown-outcomes/{call}/look", self.recover_now, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        resolved, after = "resolved" in request.query_params, request.query_params.get("after")
        effects = await self._host.calls.unknown_outcomes.list_effects(
            context.tenant, resolved=resolved, after=after, limit=_PAGE_SIZE
        )
        next_cursor = effects[-1].effect.call if len(effects) == _PAGE_SIZE else None
        values = {"doubts": [outcome_values(one) for one in effects], "resolved": resolved, "further": next_cursor}
        return render_page(request, "approvals/unknown_outcomes.html", values)

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
        self,
        request: Request,
        *,
        form: SubmittedForm | None = None,
        problems: list[Problem] | None = None,
        status: int = 200,
    ) -> Response:
        context = await call_context(self._host, request)
        outcome = outcome_values(
            await self._host.calls.unknown_outcomes.find(context.tenant, path_param(request, "call"))
        )
        typed = {name: form.last_text(name) if form else "" for name in ("answer", "comment", "result")}
        mistakes: dict[str, list[Problem]] = {}
        for problem in problems or ():
            field = problem.path if problem.path in ("answer", "comment", "sure") else "result"
            mistakes.setdefault(field, []).append(problem)
        values = {"one": outcome, "typed": typed, "mistakes": mistakes, "longest": MAX_COMMENT_CHARS}
        return render_page(request, "approvals/unknown_outcome.html", values, status)

    async def resolve(self, request: Request) -> Response:
        context, form, call = (
            await call_context(self._host, request),
            await read_form(request),
            path_param(request, "call"),
        )
        person = require_interactive_person(context.principal)
        result, problems = parse_resolution(form)
        if problems:
            return await self._render(request, form=form, problems=problems, status=422)
        try:
            await self._host.calls.unknown_outcomes.resolve(
                context.tenant,
                call,
                happened=form.last_text("answer") == "happened",
                result=result,
                result_given=result is not None,
                comment=form.last_text("comment").strip(),
                by=person.id,
            )
        except Invalid as invalid:
            return await self._render(request, form=form, problems=list(invalid.problems), status=422)
        except Conflict as conflict:  # resolved meanwhile, by a person or the host
            if conflict.error_code != "effect.not_in_doubt":
                raise
            return redirect_with_flash(_outcome_path(call), "doubt_known")
        return redirect_with_flash(_outcome_path(call), "resolved")

    async def recover_now(self, request: Request) -> Response:
        context, call = await call_context(self._host, request), path_param(request, "call")
        try:
            started = await self._host.calls.unknown_outcomes.probe_now(context.tenant, call)
        except Busy:
            return redirect_with_flash(_outcome_path(call), "doubt_busy")
        except Conflict as conflict:
            if conflict.error_code != "effect.not_in_doubt":
                raise
            return redirect_with_flash(_outcome_path(call), "doubt_known")
        return redirect_with_flash(_outcome_path(call), "doubt_looking" if started else "doubt_busy")


def parse_resolution(form: SubmittedForm) -> tuple[Any, list[Problem]]:
    """Parse the result that an operator entered, and all problems of the form. Pure."""
    problems: list[Problem] = []
    answer, text, result = form.last_text("answer"), form.last_text("result").strip(), None
    if answer not in ("happened", "not_happened"):
        problems.append(Problem("answer", "Choose one of the two."))
    if not form.last_text("comment").strip():
        problems.append(Problem("comment", "Say how you know. It stays in the ledger."))
    elif len(form.last_text("comment").strip()) > MAX_COMMENT_CHARS:
        problems.append(Problem("comment", f"Keep it below {MAX_COMMENT_CHARS:,} characters."))
    if not form.last_text("sure"):
        problems.append(Problem("sure", "Confirm that you looked."))
    if text and answer == "not_happened":
        problems.append(Problem("result", "A result is only for what happened. Leave it empty."))
    elif text:
        try:
            result = parse_json_value(text.encode())
        except Invalid as error:
            problems += [Problem("result", f"This {problem.message}") for problem in error.problems]
    return result, problems


def outcome_values(unresolved: UnresolvedEffect) -> dict[str, Any]:
    """Return the template values of an unresolved effect. Pure."""
    record = record_json(unresolved.effect)
    open_, error = unresolved.effect.state is EffectState.IN_DOUBT, unresolved.effect.error or {}
    happened = unresolved.effect.state is EffectState.SUCCEEDED
    return record | {
        "open": open_,
        "by_itself": unresolved.by_itself,
        "search": unresolved.search,
        "way": _RECOVERY_TEXTS.get(record["recovery"], record["recovery"]),
        "found": "" if open_ else "It happened" if happened else "It did not happen",
        "found_by": record["resolved_by"] or _RESOLVER_TEXTS.get(str(record["resolution"] or ""), ""),
        "why": str(error.get("message") or "") if open_ else "",
        "own_key": record["key"] == record["call_id"],
        "can_look": open_ and record["recovery"] != "none" and (unresolved.search is None or not unresolved.search.now),
    }


def _outcome_path(call: str) -> str:
    return f"/unknown-outcomes/{quote(call, safe='')}"

"""Calls of which nobody knows whether they happened: what was asked exactly, what is known, and saying what became."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Busy, Conflict, Invalid, Problem
from paddock.gate.effects.machine import State
from paddock.gate.effects.resolving import LONGEST_COMMENT, shown
from paddock.host.doubts import Doubt
from paddock.host.host import Host
from paddock.host.people_only import require_person
from paddock.http.acting import context_of
from paddock.http.console.form_body import Sent, form_of
from paddock.http.console.page import Page, done, page
from paddock.http.endpoint import OPERATOR, named
from paddock.http.json_text import read_value

_LISTED: Final = 50
_WAYS: Final = {
    "atomic": "Its plugin keeps a note of it with its own data, which Paddock looks for.",
    "probe": "Its plugin can look whether it happened, and Paddock asks it to.",
    "native_key": "The service behind it knows the key of the call. Paddock makes it again, and it happens once.",
    "none": "Its plugin offers no way to find out. Somebody has to look.",
}
_BY: Final = {
    "atomic": "its plugin's own data",
    "native_key": "the service behind it",
    "probe": "its plugin, which looked",
    "human": "a person",
}


class DoubtPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/doubts", self.listed, OPERATOR),
            Page("GET", "/doubts/{call}", self.shown, OPERATOR),
            Page("POST", "/doubts/{call}", self.resolve, OPERATOR),
            Page("POST", "/doubts/{call}/look", self.look, OPERATOR),
        ]

    async def listed(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        resolved, after = "resolved" in request.query_params, request.query_params.get("after")
        found = await self._host.doubts.listed(context.tenant, resolved=resolved, after=after, limit=_LISTED)
        further = found[-1].effect.call if len(found) == _LISTED else None
        values = {"doubts": [told_of(one) for one in found], "resolved": resolved, "further": further}
        return page(request, "doubts.html", values)

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(
        self, request: Request, *, sent: Sent | None = None, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        context = await context_of(self._host, request)
        one = told_of(await self._host.doubts.find(context.tenant, named(request, "call")))
        typed = {name: sent.one(name) if sent else "" for name in ("answer", "comment", "result")}
        mistakes: dict[str, list[Problem]] = {}
        for problem in problems or ():
            field = problem.path if problem.path in ("answer", "comment", "sure") else "result"
            mistakes.setdefault(field, []).append(problem)
        values = {"one": one, "typed": typed, "mistakes": mistakes, "longest": LONGEST_COMMENT}
        return page(request, "doubt.html", values, status)

    async def resolve(self, request: Request) -> Response:
        context, sent, call = await context_of(self._host, request), await form_of(request), named(request, "call")
        by = require_person(context.principal)
        result, problems = read_answer(sent)
        if problems:
            return await self._page(request, sent=sent, problems=problems, status=422)
        try:
            await self._host.doubts.resolve(
                context.tenant,
                call,
                happened=sent.one("answer") == "happened",
                result=result,
                comment=sent.one("comment").strip(),
                by=by.id,
            )
        except Invalid as wrong:
            return await self._page(request, sent=sent, problems=list(wrong.problems), status=422)
        except Conflict as known:  # somebody was quicker, or the host found out meanwhile
            if known.error_code != "effect.not_in_doubt":
                raise
            return done(_at(call), "doubt_known")
        return done(_at(call), "resolved")

    async def look(self, request: Request) -> Response:
        context, call = await context_of(self._host, request), named(request, "call")
        try:
            begun = await self._host.doubts.look_now(context.tenant, call)
        except Busy:
            return done(_at(call), "doubt_busy")
        except Conflict as known:
            if known.error_code != "effect.not_in_doubt":
                raise
            return done(_at(call), "doubt_known")
        return done(_at(call), "doubt_looking" if begun else "doubt_busy")


def read_answer(sent: Sent) -> tuple[Any, list[Problem]]:
    """The result that somebody gives, and every mistake of the form. Pure."""
    problems: list[Problem] = []
    answer, text, result = sent.one("answer"), sent.one("result").strip(), None
    if answer not in ("happened", "not_happened"):
        problems.append(Problem("answer", "Choose one of the two."))
    if not sent.one("comment").strip():
        problems.append(Problem("comment", "Say how you know. It stays in the ledger."))
    elif len(sent.one("comment").strip()) > LONGEST_COMMENT:
        problems.append(Problem("comment", f"Keep it below {LONGEST_COMMENT:,} characters."))
    if not sent.one("sure"):
        problems.append(Problem("sure", "Confirm that you looked."))
    if text and answer == "not_happened":
        problems.append(Problem("result", "A result is only for what happened. Leave it empty."))
    elif text:
        try:
            result = read_value(text.encode())
        except Invalid as error:
            problems += [Problem("result", f"This {one.message}") for one in error.problems]
    return result, problems


def told_of(doubt: Doubt) -> dict[str, Any]:
    """One for people. Pure."""
    told = shown(doubt.effect)
    open_, error = doubt.effect.state is State.IN_DOUBT, doubt.effect.error or {}
    happened = doubt.effect.state is State.SUCCEEDED
    return told | {
        "open": open_,
        "by_itself": doubt.by_itself,
        "search": doubt.search,
        "way": _WAYS.get(told["recovery"], told["recovery"]),
        "found": "" if open_ else "It happened" if happened else "It did not happen",
        "found_by": told["resolved_by"] or _BY.get(str(told["resolution"] or ""), ""),
        "why": str(error.get("message") or "") if open_ else "",
        "own_key": told["key"] == told["call_id"],
        "can_look": open_ and told["recovery"] != "none" and (doubt.search is None or not doubt.search.now),
    }


def _at(call: str) -> str:
    return f"/doubts/{quote(call, safe='')}"

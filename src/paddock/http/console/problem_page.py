"""An error as a page, for whoever looks with a browser."""

from __future__ import annotations

from typing import Any

from starlette.responses import HTMLResponse, Response

from paddock.http.console.policy_of_pages import CSP
from paddock.http.console.templates import render

_HEADINGS = {403: "Not for you", 404: "There is nothing here", 429: "Too much at once"}


def problem_page(problem: dict[str, Any], status: int, headers: dict[str, str]) -> Response:
    """A problem body, as `full_problem` makes it, for people. Whoever is not signed in is told how to be."""
    if problem["code"] == "auth.needed":
        text = render("sign_in.html", {})
    else:
        shown = {name: problem.get(name) for name in ("message", "hint", "code", "error_id", "errors")}
        text = render("problem.html", {**shown, "heading": _HEADINGS.get(status, "This did not work")})
    return HTMLResponse(text, status, {**headers, "content-security-policy": CSP})

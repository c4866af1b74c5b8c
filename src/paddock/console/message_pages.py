"""A page that says one thing to somebody who may not be signed in, with a button at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from paddock.console.page import CSP, CSP_WITHOUT_SCRIPTS, frame_values
from paddock.console.templates import render
from paddock.web.security.authenticate import Caller


def notice_page(title: str, words: str, *, button: str = "", home: str = "", status: int = 200) -> HTMLResponse:
    """Words under a title; `button` posts to the page's own address, and `home` leads to the first page."""
    text = render("notice.html", {"heading": title, "words": words, "button": button, "home": home})
    return HTMLResponse(text, status, {"content-security-policy": CSP_WITHOUT_SCRIPTS, "cache-control": "no-store"})


_HEADING_BY_STATUS: Final = {403: "Not for you", 404: "There is nothing here", 429: "Too much at once"}


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """Shows errors to people. `sign_in` is where an identity provider signs them in, if there is one."""

    sign_in: str = ""

    def __call__(self, problem: dict[str, Any], status: int, headers: dict[str, str], scope: Scope) -> Response:
        """A problem body, as `full_problem` makes it. Whoever is not signed in is told how to be, and gets back here.

        Args:
            problem: The body that a program would get.
            status, headers: Those of the answer.
            scope: The request that failed.
        """
        path = scope["path"]
        caller: Caller | None = scope.get("state", {}).get("caller")
        if problem["code"] == "auth.needed":
            text = render("sign_in.html", {"sign_in": self.sign_in, "here": path})
        else:
            shown = {name: problem.get(name) for name in ("message", "hint", "code", "error_id", "errors")}
            if problem["code"] == "http.no_route":
                shown["hint"] = ""  # it leads programs to the description of the API
            frame = frame_values(caller, path) if caller is not None else {}
            text = render(
                "problem.html", {**frame, **shown, "heading": _HEADING_BY_STATUS.get(status, "This did not work")}
            )
        return HTMLResponse(text, status, {**headers, "content-security-policy": CSP})

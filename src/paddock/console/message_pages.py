"""Standalone pages with one message, for people who may not be signed in: notices and errors."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from paddock.console.page import CSP, CSP_WITHOUT_SCRIPTS, frame_values, page_names
from paddock.console.templates import NAMES, render
from paddock.web.security.authenticate import Caller


def notice_page(title: str, message: str, *, button: str = "", home: str = "", status: int = 200) -> HTMLResponse:
    """Render a message under a title; `button` posts to the page's own URL, and `home` links to the first page."""
    text = render("layout/notice.html", {"heading": title, "words": message, "button": button, "home": home})
    return HTMLResponse(text, status, {"content-security-policy": CSP_WITHOUT_SCRIPTS, "cache-control": "no-store"})


_HEADING_BY_STATUS: Final = {403: "Not for you", 404: "There is nothing here", 429: "Too much at once"}


class ProblemPage(Struct, frozen=True):
    """Renders errors as pages. `sign_in` is the path of the identity provider's sign-in, if there is one."""

    sign_in: str = ""

    def __call__(self, problem: dict[str, Any], status: int, headers: dict[str, str], scope: Scope) -> Response:
        """Render a problem body of `full_problem`. People who are not signed in get the sign-in page, and return here.

        Args:
            problem: The body that a program would get.
            status, headers: Of the response.
            scope: The request that failed.
        """
        path = scope["path"]
        caller: Caller | None = scope.get("state", {}).get("caller")
        if problem["code"] == "auth.needed":
            text = render("layout/sign_in.html", {"sign_in": self.sign_in, "here": path})
        else:
            fields = {name: problem.get(name) for name in ("message", "hint", "action", "code", "error_id", "errors")}
            if problem["code"] == "http.no_route":
                fields["hint"] = ""  # the hint points programs to the API description
            layout_values = {NAMES: page_names(scope), **frame_values(caller, path)} if caller is not None else {}
            text = render(
                "layout/problem.html",
                {**layout_values, **fields, "heading": _HEADING_BY_STATUS.get(status, "This did not work")},
            )
        return HTMLResponse(text, status, {**headers, "content-security-policy": CSP})

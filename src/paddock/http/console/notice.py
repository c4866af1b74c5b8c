"""A page that says one thing to somebody who may not be signed in, with a button at most."""

from __future__ import annotations

from starlette.responses import HTMLResponse

from paddock.http.console.policy_of_pages import WITHOUT_SCRIPTS
from paddock.http.console.templates import render


def notice(title: str, words: str, *, button: str = "", home: str = "", status: int = 200) -> HTMLResponse:
    """Words under a title; `button` posts to the page's own address, and `home` leads to the first page."""
    text = render("notice.html", {"heading": title, "words": words, "button": button, "home": home})
    return HTMLResponse(text, status, {"content-security-policy": WITHOUT_SCRIPTS, "cache-control": "no-store"})

"""What all pages of settings share: the way to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.http.auth import caller_of
from paddock.http.console.page import page
from paddock.http.endpoint import HOST, MEMBER, OPERATOR

SECTIONS: Final = (
    ("/settings", "You", MEMBER),
    ("/settings/keys", "API keys", MEMBER),
    ("/settings/people", "People", OPERATOR),
    ("/settings/webhooks", "Webhooks", OPERATOR),
    ("/settings/host", "This host", HOST),
)


def settings_page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """A page with the sections that whoever asks may see above it."""
    caller = caller_of(request)
    sections = [(path, words) for path, words, who in SECTIONS if who.lets(caller)]
    return page(request, template, {"sections": sections, **values}, status)

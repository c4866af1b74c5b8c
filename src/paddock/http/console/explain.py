"""Any decision in plain words: who, what, which rule, what would have changed it, and what happened."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import NotFound
from paddock.host.explaining import to_value
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.page import Page, page
from paddock.http.endpoint import LONGEST_NAME, named
from paddock.manifest.effects import IN_WORDS


class ExplainPages:
    """For everybody: members are told of their own calls, and without what a rule keeps from people."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [Page("GET", "/explain", self.ask), Page("GET", "/explain/{id}", self.told)]

    async def ask(self, request: Request) -> Response:
        wanted = request.query_params.get("id", "").strip()[:LONGEST_NAME]
        if wanted:
            return RedirectResponse(f"/explain/{quote(wanted, safe='')}", 303)
        return self._page(request, "")

    async def told(self, request: Request) -> Response:
        context, wanted = await context_of(self._host, request), named(request, "id").strip()
        try:
            found = await self._host.explaining.explain(wanted, context.principal)
        except NotFound:
            return self._page(request, wanted, status=404)
        return self._page(request, wanted, to_value(wanted, found))

    def _page(self, request: Request, wanted: str, told: dict[str, Any] | None = None, status: int = 200) -> Response:
        values = {
            "wanted": wanted,
            "told": told,
            "version_now": self._host.rules.policy.version,
            "effect_words": {str(effect): words for effect, words in IN_WORDS.items()},
            "here": "/policy/explain",  # where it stands among the pages, though members find it too
        }
        return page(request, "explain.html", values, status)

"""The first page: what runs, what waits for me, what broke."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.host.host import Host
from paddock.http.acting import context_of, is_theirs
from paddock.http.auth import caller_of
from paddock.http.console.page import Page, operates, page
from paddock.http.console.plugin_words import in_trouble, told_of

_LISTED = 8


class HomePage:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [Page("GET", "/", self.show)]

    async def show(self, request: Request) -> Response:
        context, caller = await context_of(self._host, request), caller_of(request)
        by, sees = context.principal, operates(caller)
        plugins = await (self._host.plugins(by.tenant) if sees else self._host.offers.plugins(context))
        waiting = await self._host.approving.listed(by.tenant, limit=_LISTED, to=by)
        recent = self._host.calls.recent(
            _LISTED, by.tenant, None if sees else lambda live: is_theirs(by, live.context.principal)
        )
        return page(
            request,
            "home.html",
            {
                "plugins": [told_of(one) for one in plugins],
                "troubles": [told_of(one) for one in plugins if in_trouble(one)],
                "host_troubles": self._host.condition.to_json()["troubles"] if sees else [],
                "waiting": waiting,
                "recent": recent,
            },
        )

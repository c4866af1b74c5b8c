"""The ledger: what happened, failures first where wanted, and one call from end to end."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NotFound
from paddock.host.explaining import to_value
from paddock.host.host import Host
from paddock.host.ledger_reading import moment
from paddock.http.acting import context_of
from paddock.http.console.page import Page, page
from paddock.http.endpoint import OPERATOR, named
from paddock.ledger.feed import Wanted

_LISTED = 50
_FILTERS = ("type", "plugin", "call", "principal", "since", "until")


class LedgerPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/ledger", self.listed, OPERATOR),
            Page("GET", "/ledger/{id}", self.story, OPERATOR),
        ]

    async def listed(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
        wanted = Wanted(
            given["type"] or None,
            given["plugin"] or None,
            given["call"] or None,
            None,
            given["principal"] or None,
            moment(given["since"] or None),
            moment(given["until"] or None),
        )
        before = request.query_params.get("before", "")
        entries = await self._host.ledger.page(
            context.tenant, wanted, before=int(before) if before.isdigit() else None, limit=_LISTED
        )
        further = None
        if len(entries) == _LISTED:
            asked = {name: value for name, value in given.items() if value}
            further = "/ledger?" + urlencode({**asked, "before": entries[-1].seq})
        return page(request, "ledger.html", {"entries": entries, "given": given, "further": further})

    async def story(self, request: Request) -> Response:
        context, wanted = await context_of(self._host, request), named(request, "id")
        entries, forged = await self._host.ledger.told_of(context.tenant, wanted)
        try:
            explained = to_value(wanted, await self._host.explaining.explain(wanted, context.principal))["calls"]
        except NotFound:
            explained = []
        values = {"wanted": wanted, "entries": entries, "altered": {one.id for one in forged}, "explained": explained}
        return page(request, "story.html", values)

"""`/activity`: all calls, newest first, with filters; those that run or wait are on top, live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.page import Page, is_operator, render_page
from paddock.console.templates import HtmlFragment, render_fragment
from paddock.console.text.call_text import outcome_severity, outcome_text
from paddock.core.call import OPERATOR, Principal
from paddock.core.single_flight import SharedRuns
from paddock.host.calls.call_history import CallFilter, CallRowJson, OutcomeFilter
from paddock.host.calls.day_statistics import DayStatisticsJson
from paddock.host.host import Host
from paddock.ledger.text.sentence_template import duration_text
from paddock.principals.caller_text import caller_text
from paddock.web.request_context import call_context
from paddock.web.routing.route import MAX_NAME_CHARS
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream

_PAGE_SIZE: Final = 50
_POLL_INTERVAL_S: Final = 1.0
_MAX_READERS: Final = 256  # with their filters, whose lists are kept for their other pages
_MAX_SEQ: Final = 2**63 - 1
_OUTCOMES: Final = (
    ("", "All"),
    ("failed", "Failed"),
    ("denied", "Denied"),
    ("waiting", "Waiting"),
    ("running", "Running"),
)
_FIELDS: Final = ("outcome", "plugin", "person", "day")


@dataclass(frozen=True, slots=True)
class ActivityFilters:
    """The filters of a request.

    Attributes:
        given: The fields as typed; empty if missing.
        wanted: The same for the host.
        mistakes: Problems by field; an invalid field does not filter.
    """

    given: Mapping[str, str]
    wanted: CallFilter
    mistakes: Mapping[str, str] = field(default_factory=dict[str, str])

    def address(self, path: str = "/activity", **overrides: object) -> str:
        """Return the URL with the same filters and additional parameters; `None` removes one."""
        params = {**{name: value for name, value in self.given.items() if value}, **overrides}
        query = urlencode({name: value for name, value in params.items() if value is not None})
        return f"{path}?{query}" if query else path


def parse_activity_filters(query: Mapping[str, str]) -> ActivityFilters:
    """Parse the filters of a query string."""
    given = {name: query.get(name, "").strip()[:MAX_NAME_CHARS] for name in _FIELDS}
    mistakes: dict[str, str] = {}
    if given["outcome"] not in {value for value, _ in _OUTCOMES}:
        given["outcome"] = ""
    day = None
    try:
        day = date.fromisoformat(given["day"]) if given["day"] else None
    except ValueError:
        mistakes["day"] = "Enter a day, such as 2030-01-31"
    if day is not None and not 2000 <= day.year <= 9000:
        day, mistakes["day"] = None, "Enter a day of this century"
    wanted = CallFilter(cast("OutcomeFilter", given["outcome"]), given["plugin"], given["person"], day)
    return ActivityFilters(given, wanted, mistakes)


class ActivityPages:
    """The list of calls: operators see their tenant's, others their own."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing
        self._runs: SharedRuns[tuple[Principal, CallFilter], HtmlFragment] = SharedRuns(
            time.monotonic, _POLL_INTERVAL_S
        )
        self._rendered: dict[tuple[Principal, CallFilter], tuple[float, object, HtmlFragment]] = {}

    def routes(self) -> list[Page]:
        return [Page("GET", "/activity", self.show), Page("GET", "/activity/live", self.stream)]

    async def show(self, request: Request) -> Response:
        query = request.query_params
        if call_id := query.get("id", "").strip()[:MAX_NAME_CHARS]:
            # Any id: the ledger's page leads on from those that are not of calls.
            section = "calls" if call_id.startswith("call_") or not is_operator(caller_of(request)) else "ledger"
            return RedirectResponse(f"/{section}/{quote(call_id, safe='')}", 303)
        context, filters = await call_context(self._host, request), parse_activity_filters(query)
        before = query.get("before", "")
        cursor = min(int(before), _MAX_SEQ) if before.isascii() and before.isdigit() and len(before) < 20 else None
        principal = context.principal
        values = await self._list_values(principal, filters, cursor)
        labels = await self._host.identity.api_keys.labels(context.tenant)
        names = await self._host.ledger.reader.suggest_names(context.tenant) if is_operator(caller_of(request)) else {}
        numbers = None
        if is_operator(caller_of(request)):
            numbers = _numbers(await self._host.calls.history.day(context.tenant, filters.wanted.day))
        values |= {
            "filters": filters,
            "given": filters.given,
            "outcomes": _OUTCOMES,
            "numbers": numbers,
            "first": cursor is None,
            "names": names,
            "person_name": caller_text(filters.given["person"], None, labels) if filters.given["person"] else "",
        }
        return render_page(request, "activity.html", values, 422 if filters.mistakes else 200)

    async def stream(self, request: Request) -> Response:
        context, filters = await call_context(self._host, request), parse_activity_filters(request.query_params)
        return event_stream(self._fragments(context.principal, filters), self._closing)

    async def _fragments(self, principal: Principal, filters: ActivityFilters) -> AsyncGenerator[HtmlFragment, None]:
        """Yield the first page of the list whenever it has changed."""
        last: HtmlFragment | None = None
        while True:
            reader = (principal, filters.wanted)
            current = await self._runs.join(reader, lambda: self._refresh(principal, filters))
            if current != last:
                last = current
                yield current
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _refresh(self, principal: Principal, filters: ActivityFilters) -> HtmlFragment:
        """Return the list as it is now, for all open pages of the same reader."""
        reader, began = (principal, filters.wanted), time.monotonic()
        known = self._rendered.get(reader)
        if known is not None and began - known[0] < _POLL_INTERVAL_S:
            return known[2]  # each page asks again as often as that
        # What runs is known without a read; what ended has an entry.
        state = (
            await self._host.ledger.reader.end_seq(principal.tenant),
            tuple((one.id, one.status) for one in self._host.calls.registry.list_current(principal.tenant)),
        )
        if known is None or known[1] != state:
            values = await self._list_values(principal, filters, None)
            values |= {"filters": filters, "operates": OPERATOR in principal.roles}
            fragment = render_fragment("activity_list.html", values)
        else:
            fragment = known[2]
        self._rendered.pop(reader, None)
        self._rendered[reader] = began, state, fragment
        while len(self._rendered) > _MAX_READERS:
            del self._rendered[next(iter(self._rendered))]
        return fragment

    async def _list_values(self, principal: Principal, filters: ActivityFilters, before: int | None) -> dict[str, Any]:
        page = await self._host.calls.history.page(principal, filters.wanted, before=before, limit=_PAGE_SIZE)
        older = None if page.older is None else filters.address(before=page.older)
        return {"calls": _rows((*page.current, *page.ended)), "older": older}


def _rows(calls: Sequence[CallRowJson]) -> list[dict[str, Any]]:
    return [
        {
            **call,
            "words": outcome_text(call["outcome"], call["error_code"]),
            "mood": outcome_severity(call["outcome"]),
            "took": "" if call["duration_ms"] is None else duration_text(call["duration_ms"]),
        }
        for call in calls
    ]


def _numbers(statistics: DayStatisticsJson) -> dict[str, Any]:
    """Return the numbers of a day as texts, with the days before and after it."""
    day = date.fromisoformat(statistics["day"])
    calls, failed = statistics["calls"], statistics["failed"]
    return {
        **statistics,
        "share": f"{100 * failed / calls:.1f} %" if failed else "",
        "p95": "–" if statistics["p95_ms"] is None else duration_text(statistics["p95_ms"]),
        "day_before": (day - timedelta(days=1)).isoformat(),
        "day_after": (day + timedelta(days=1)).isoformat(),
    }

"""`/activity`: all calls, newest first, with filters; those that run or wait are on top, live."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.live_fragments import LiveFragments
from paddock.console.page import Page, is_operator, page_names, render_page
from paddock.console.templates import HtmlFragment, render_fragment
from paddock.console.tenant_changes import TenantChanges
from paddock.console.text.call_text import outcome_severity, outcome_text
from paddock.core.call import OPERATOR, Principal
from paddock.core.ids import Tenant
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
_MIN_INTERVAL_S: Final = 1.0
_MAX_AGE_S: Final = 60.0
_MAX_SEQ: Final = 2**63 - 1
_OUTCOMES: Final = (
    ("", "All"),
    ("failed", "Failed"),
    ("denied", "Denied"),
    ("waiting", "Waiting"),
    ("running", "Running"),
)
_FIELDS: Final = ("outcome", "plugin", "person", "day")


class ActivityFilters(Struct, frozen=True):
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


@dataclasses.dataclass(frozen=True, slots=True)
class ActivityListReader:
    """Who reads which calls. Operators of a tenant read the same.

    Attributes:
        sees: Whose calls: all of a tenant, or those of a principal.
        address: The filters, as a URL.
    """

    sees: Tenant | Principal
    address: str
    principal: Principal = dataclasses.field(compare=False)
    filters: ActivityFilters = dataclasses.field(compare=False)

    @classmethod
    def of(cls, principal: Principal, filters: ActivityFilters) -> ActivityListReader:
        sees = principal.tenant if OPERATOR in principal.roles else principal
        return cls(sees, filters.address(), principal, filters)


class ActivityPages:
    """The list of calls: operators see their tenant's, others their own."""

    def __init__(self, host: Host, closing: asyncio.Event, changes: TenantChanges) -> None:
        self._host = host
        self._closing = closing
        self._live = LiveFragments[ActivityListReader](
            self._render_list, changes, min_interval_s=_MIN_INTERVAL_S, max_age_s=_MAX_AGE_S
        )

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
            "person_name": caller_text(filters.given["person"], None, page_names(request.scope))
            if filters.given["person"]
            else "",
        }
        return render_page(request, "calls/activity.html", values, 422 if filters.mistakes else 200)

    async def stream(self, request: Request) -> Response:
        context, filters = await call_context(self._host, request), parse_activity_filters(request.query_params)
        reader = ActivityListReader.of(context.principal, filters)
        return event_stream(self._live.follow(reader, context.tenant), self._closing)

    async def _render_list(self, reader: ActivityListReader) -> HtmlFragment:
        """Render the first page of the list."""
        values = await self._list_values(reader.principal, reader.filters, None)
        operates = OPERATOR in reader.principal.roles
        return render_fragment("calls/activity_list.html", {**values, "filters": reader.filters, "operates": operates})

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

"""The home page, by exception: what needs the reader, the day's calls, what runs, and what is unwell; updated live."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.live_fragments import LiveFragments
from paddock.console.page import Page, is_operator, render_page
from paddock.console.pages.plugins.charts import Chart, calls_chart
from paddock.console.places import visible_places
from paddock.console.templates import NAMES, HtmlFragment, render_fragment
from paddock.console.tenant_changes import TenantChanges
from paddock.console.text.call_text import outcome_severity, outcome_text
from paddock.console.text.inbox_text import item_sentence, item_tag
from paddock.console.text.plugin_text import PluginSummary, summarize_plugin
from paddock.core.call import CallContext, Principal
from paddock.core.errors import PaddockError
from paddock.core.printable import count_text
from paddock.host.calls.call_history import CallFilter, CallRowJson
from paddock.host.calls.last_day import LastDay
from paddock.host.host import Host
from paddock.host.inbox.inbox import ALL_KINDS
from paddock.host.inbox.source import InboxQuery
from paddock.host.plugins.activity import ActivityBucket, ActivitySummary, TimeWindow
from paddock.ledger.text.sentence_template import duration_text
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST
from paddock.web.security.authenticate import Caller, caller_of
from paddock.web.sse import event_stream

MAX_UNWELL: Final = 24
_MAX_NEEDS = 6  # the inbox lists all
_MAX_RUNNING = 8
_MAX_RECENT = 8
_MIN_INTERVAL_S: Final = 2.0  # each render checks the files of every plugin
_MAX_AGE_S: Final = 16.0  # of what changes without an entry: a plugin's files, a problem of the machine
_RUNNING_OUTCOMES: Final = ("running", "in_progress")
_UNWELL_RANK: Final = {"bad": 0, "busy": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class HomeReader:
    """Who reads the page: its content depends on who they are and how they signed in."""

    principal: Principal
    caller: Caller
    context: CallContext = dataclasses.field(compare=False)


class HomePages:
    """The home page and its live updates."""

    def __init__(self, host: Host, closing: asyncio.Event, changes: TenantChanges) -> None:
        self._host = host
        self._closing = closing
        self._live = LiveFragments[HomeReader](
            self._render, changes, min_interval_s=_MIN_INTERVAL_S, max_age_s=_MAX_AGE_S
        )

    def routes(self) -> list[Page]:
        return [Page("GET", "/", self.show), Page("GET", "/home/live", self.stream)]

    async def show(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        return render_page(request, "home/home.html", await self._template_values(context, caller_of(request)))

    async def stream(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        reader = HomeReader(context.principal, caller_of(request), context)
        return event_stream(self._live.follow(reader, context.tenant), self._closing)

    async def _render(self, reader: HomeReader) -> HtmlFragment:
        values = await self._template_values(reader.context, reader.caller)
        return render_fragment("home/home_state.html", values)

    async def _template_values(self, context: CallContext, caller: Caller) -> dict[str, Any]:
        principal, operates = context.principal, is_operator(caller)
        listed = await (
            self._host.plugins.inventory.list_all(principal.tenant)
            if operates
            else self._host.calls.permitted_plugins.plugins(context)
        )
        plugins = [summarize_plugin(item) for item in listed]
        needs = await self._host.inbox.page(InboxQuery(principal, ALL_KINDS, limit=_MAX_NEEDS))
        counts = await self._host.inbox.counts(principal)
        names = await self._host.identity.names.read(principal.tenant)
        calls = await self._host.calls.history.page(principal, CallFilter(), limit=_MAX_RECENT)
        running = [call for call in calls.current if call["outcome"] in _RUNNING_OUTCOMES]
        recent = [call for call in (*calls.current, *calls.ended) if call["outcome"] not in _RUNNING_OUTCOMES]
        healthy, unwell, left_out = split_plugins(plugins)
        return {
            "operates": operates,
            "may_install": HOST.allows(caller),
            "summary": summarize_home(plugins, needs=counts.total, running=len(running), operates=operates),
            "needs": [(item, item_sentence(item, names, principal.person), item_tag(item)) for item in needs.items],
            "needs_total": counts.total,
            "with_others": counts.with_others,
            "unavailable": list(dict.fromkeys(needs.unavailable.values())),
            "inbox": next((path for place, path in visible_places(caller) if place.key == "inbox"), "/approvals"),
            "day": await self._day_values(context) if operates else None,
            "running": [_call_view(call) for call in running[:_MAX_RUNNING]],
            "more_running": max(0, len(running) - _MAX_RUNNING),
            "plugins": len(plugins),
            "unwell": unwell,
            "more_unwell": left_out,
            "healthy": healthy,
            "healthy_key": _digest(plugin.name for plugin in healthy),
            "recent": [_call_view(call) for call in recent[:_MAX_RECENT]],
            NAMES: names,
        }

    async def _day_values(self, context: CallContext) -> dict[str, Any] | None:
        """Return the numbers of the last day; None if they cannot be read, which must not hide the page."""
        try:
            day = await self._host.calls.last_day.summarize(context.tenant)
        except PaddockError:
            return None
        return {
            "calls": day.calls,
            "failed": day.failed,
            "share": f"{100 * day.failed / day.calls:.1f} %" if day.failed else "0 %",
            "denied": day.denied,
            "p95": "–" if day.p95_ms is None else duration_text(day.p95_ms),
            "complete": day.complete,
            "chart": day_chart(day),
        }


def day_chart(day: LastDay) -> Chart:
    """Build the chart of the last day's calls by the hour."""
    buckets = tuple(
        ActivityBucket(hour.since, hour.calls - hour.failed - hour.denied, hour.failed, hour.denied)
        for hour in day.hours
    )
    window = TimeWindow("24 hours", timedelta(hours=len(buckets)), len(buckets))
    return calls_chart(ActivitySummary(window, buckets))


def _call_view(call: CallRowJson) -> dict[str, Any]:
    return {
        **call,
        "words": outcome_text(call["outcome"], call["error_code"]),
        "mood": outcome_severity(call["outcome"]),
        "took": "" if call["duration_ms"] is None else duration_text(call["duration_ms"]),
    }


class HomeSummary(Struct, frozen=True):
    """The heading of the home page."""

    heading: str
    line: str
    mood: Literal["good", "busy"]


def summarize_home(plugins: Sequence[PluginSummary], *, needs: int, running: int, operates: bool) -> HomeSummary:
    """Return the heading and the line below it.

    Args:
        plugins: The plugins that the caller sees.
        needs: Number of things that the caller can answer.
        running: Number of running calls.
        operates: Whether the caller sees everything of its tenant.
    """
    if needs:
        heading = "1 thing needs you" if needs == 1 else f"{needs:,} things need you"
        return HomeSummary(heading, _summary_line(plugins, running, operates), "busy")
    heading = "All is well" if plugins else "Welcome to Paddock"
    return HomeSummary(heading, _summary_line(plugins, running, operates), "good")


def _summary_line(plugins: Sequence[PluginSummary], running: int, operates: bool) -> str:
    if not plugins:
        return ""
    processes = sum(plugin.mood == "good" for plugin in plugins)
    parts = [count_text(len(plugins), "plugin") + (f", {processes:,} running" if operates else " you can use")]
    if running:
        parts.append(f"{count_text(running, 'call')} under way")
    return " · ".join(parts)


def split_plugins(plugins: Iterable[PluginSummary]) -> tuple[list[PluginSummary], list[PluginSummary], int]:
    """Return the healthy plugins, those that are unwell, the worst first, and how many of these are left out."""
    listed = sorted(plugins, key=lambda plugin: plugin.name)
    healthy = [plugin for plugin in listed if plugin.mood not in _UNWELL_RANK]
    unwell = sorted(
        (plugin for plugin in listed if plugin.mood in _UNWELL_RANK), key=lambda plugin: _UNWELL_RANK[plugin.mood]
    )
    return healthy, unwell[:MAX_UNWELL], max(0, len(unwell) - MAX_UNWELL)


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]

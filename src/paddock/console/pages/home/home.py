"""The home page, by exception: what needs the reader, the day's calls, what runs, and what is unwell; updated live."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, is_operator, render_page
from paddock.console.pages.plugins.charts import Chart, calls_chart
from paddock.console.places import visible_places
from paddock.console.templates import KEY_LABELS, HtmlFragment, render_fragment
from paddock.console.text.call_text import outcome_severity, outcome_text
from paddock.console.text.plugin_text import PluginSummary, summarize_plugin
from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import count_text
from paddock.core.single_flight import SharedRuns
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
_POLL_INTERVAL_S = 2.0  # each refresh checks the files of every plugin
_POLLS_PER_REFRESH = 8  # refresh after so many polls even without ledger entries
_MAX_SHARED_AGE_S: Final = 8.0  # of the same state, for other pages of the same reader
_MAX_READERS: Final = 256
_RUNNING_OUTCOMES: Final = ("running", "in_progress")
_UNWELL_RANK: Final = {"bad": 0, "busy": 1}


class _Rendered(NamedTuple):
    """The live part of a reader's page, when it was begun, and the state that it shows."""

    at: float
    state: tuple[object, ...]
    fragment: HtmlFragment


class HomePages:
    """The home page and its live updates. Pages that are open at once share the work of a refresh."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing
        self._runs: SharedRuns[tuple[object, ...], _Rendered] = SharedRuns(time.monotonic, _POLL_INTERVAL_S)
        self._rendered: dict[tuple[object, ...], _Rendered] = {}
        self._end_seqs: dict[Tenant, tuple[float, int]] = {}

    def routes(self) -> list[Page]:
        return [Page("GET", "/", self.show), Page("GET", "/home/live", self.stream)]

    async def show(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        return render_page(request, "home.html", await self._template_values(context, caller_of(request)))

    async def stream(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        return event_stream(self._fragments(context, caller_of(request)), self._closing)

    async def _fragments(self, context: CallContext, caller: Caller) -> AsyncGenerator[HtmlFragment, None]:
        """Yield the page's live part whenever it has changed."""
        last: HtmlFragment | None = None
        while True:
            state = await self._state(context)
            rendered = await self._shared_fragment(context, caller, state)
            state, current = rendered.state, rendered.fragment
            if current != last:
                last = current
                yield current
            for _ in range(_POLLS_PER_REFRESH):
                await asyncio.sleep(_POLL_INTERVAL_S)
                if await self._state(context) != state:
                    break

    async def _state(self, context: CallContext) -> tuple[object, ...]:
        """Return what tells that the page may have changed: what ended has an entry, and what runs is known."""
        tenant, now = context.tenant, time.monotonic()
        read_at, end_seq = self._end_seqs.get(tenant, (0.0, 0))
        if now - read_at >= _POLL_INTERVAL_S / 2:  # one read for all pages of a tenant
            end_seq = await self._host.ledger.reader.end_seq(tenant)
            self._end_seqs[tenant] = (now, end_seq)
        running = self._host.calls.registry.list_current(tenant)
        return end_seq, tuple((one.id, one.status) for one in running)

    async def _shared_fragment(self, context: CallContext, caller: Caller, state: tuple[object, ...]) -> _Rendered:
        """Return the live part with the state that it shows: new, or as another page of the same reader got it.

        On a busy host the state is another one at each poll, and pages of one reader still share what is a moment old.
        """
        reader = (context.principal, caller.via)
        known = self._rendered.get(reader)
        if known is not None:
            age = time.monotonic() - known.at
            if age < (_MAX_SHARED_AGE_S if known.state == state else _POLL_INTERVAL_S):
                return known
        return await self._runs.join(reader, lambda: self._render(context, caller, state))

    async def _render(self, context: CallContext, caller: Caller, state: tuple[object, ...]) -> _Rendered:
        began = time.monotonic()
        fragment = render_fragment("home_state.html", await self._template_values(context, caller))
        reader = (context.principal, caller.via)
        self._rendered.pop(reader, None)
        rendered = self._rendered[reader] = _Rendered(began, state, fragment)
        while len(self._rendered) > _MAX_READERS:
            del self._rendered[next(iter(self._rendered))]
        return rendered

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
        calls = await self._host.calls.history.page(principal, CallFilter(), limit=_MAX_RECENT)
        running = [call for call in calls.current if call["outcome"] in _RUNNING_OUTCOMES]
        recent = [call for call in (*calls.current, *calls.ended) if call["outcome"] not in _RUNNING_OUTCOMES]
        healthy, unwell, left_out = split_plugins(plugins)
        return {
            "operates": operates,
            "may_install": HOST.allows(caller),
            "summary": summarize_home(plugins, needs=counts.total, running=len(running), operates=operates),
            "needs": needs.items,
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
            KEY_LABELS: await self._host.identity.api_keys.labels(principal.tenant),
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


@dataclass(frozen=True, slots=True)
class HomeSummary:
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

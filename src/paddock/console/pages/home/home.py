"""The home page: what needs attention, the plugins, pending approvals and recent calls; updated live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, is_operator, render_page
from paddock.console.pages.home.repairs import build_repair_view
from paddock.console.templates import KEY_LABELS, HtmlFragment, render_fragment
from paddock.console.text.call_text import call_status_text
from paddock.console.text.plugin_text import PluginSummary, summarize_plugin
from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.core.printable import count_text
from paddock.gate.calls.handle import CallHandle, CallSummaryJson
from paddock.host.host import Host
from paddock.host.repairs.repair import Severity
from paddock.web.request_context import call_context, is_owner
from paddock.web.routing.route import HOST
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import event_stream

MAX_TILES: Final = 48
_SEVERITY_RANK: Final = {"bad": 0, "busy": 1, "good": 2, "calm": 3}
_MAX_PROBLEMS = 6  # shown here; the repairs page lists all
_MAX_LISTED = 8
_POLL_INTERVAL_S = 2.0  # each refresh checks the files of every plugin
_POLLS_PER_REFRESH = 8  # refresh after so many polls even without ledger entries
_NO_PROBLEMS: dict[str, Any] = {
    "problems": [],
    "problem_count": 0,
    "more_problems": 0,
    "notices": 0,
    "doubts": None,
    "unknown": None,
}


class HomePages:
    """The home page and its live updates."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [Page("GET", "/", self.show), Page("GET", "/home/live", self.stream)]

    async def show(self, request: Request) -> Response:
        return render_page(request, "home.html", await self._template_values(request))

    async def stream(self, request: Request) -> Response:
        return event_stream(self._fragments(request), self._closing)

    async def _fragments(self, request: Request) -> AsyncGenerator[HtmlFragment, None]:
        """Yield the page's live part whenever it has changed."""
        tenant = (await call_context(self._host, request)).tenant
        last: HtmlFragment | None = None
        while True:
            end_seq = await self._host.ledger.reader.end_seq(tenant)
            current = render_fragment("home_state.html", await self._template_values(request))
            if current != last:
                last = current
                yield current
            for _ in range(_POLLS_PER_REFRESH):
                await asyncio.sleep(_POLL_INTERVAL_S)
                if await self._host.ledger.reader.end_seq(tenant) != end_seq:
                    break

    async def _template_values(self, request: Request) -> dict[str, Any]:
        context, caller = await call_context(self._host, request), caller_of(request)
        principal, operates = context.principal, is_operator(caller)
        listed = await (
            self._host.plugins.inventory.list_all(principal.tenant)
            if operates
            else self._host.calls.permitted_plugins.plugins(context)
        )
        plugins = [summarize_plugin(item) for item in listed]
        waiting, others = await self._host.approvals.pending(principal, limit=_MAX_LISTED + 1)
        problem_values = (
            await self._problem_values(context, operates_host=HOST.allows(caller)) if operates else _NO_PROBLEMS
        )

        def is_visible(call: CallHandle) -> bool:
            return operates or is_owner(principal, call.context.principal)

        recent = self._host.calls.registry.recent(_MAX_LISTED, principal.tenant, is_visible)
        running_calls = sum(item["status"] in ("running", "in_progress") for item in recent)
        tiles, left_out = select_tiles(plugins)
        return problem_values | {
            "operates": operates,
            "may_install": HOST.allows(caller),
            "summary": summarize_home(
                plugins,
                problems=problem_values["problem_count"],
                waiting=min(len(waiting), _MAX_LISTED),
                more_waiting=len(waiting) > _MAX_LISTED,
                calls=running_calls,
                operates=operates,
            ),
            "plugins": tiles,
            "left_out": left_out,
            "waiting": waiting[:_MAX_LISTED],
            "more_waiting": len(waiting) > _MAX_LISTED,
            "with_others": others[:_MAX_LISTED],
            KEY_LABELS: await self._host.identity.api_keys.labels(principal.tenant) if waiting or others else {},
            "recent": [item | {"words": self._status_text(item, principal.tenant)} for item in recent],
        }

    def _status_text(self, call: CallSummaryJson, tenant: Tenant) -> str:
        error = self._host.calls.registry.find(call["call_id"], tenant).error
        return call_status_text(call["status"], error.error_code if error else "")

    async def _problem_values(self, context: CallContext, *, operates_host: bool) -> dict[str, Any]:
        """Return the open problems. A failure to determine them is a problem too, but must not hide the page."""
        try:
            repairs = (await self._host.repairs.list_repairs(context.tenant)).open
            doubts = await self._host.calls.unknown_outcomes.count(context.tenant)
        except PaddockError as error:
            return _NO_PROBLEMS | {"unknown": error, "problem_count": 1}
        urgent = [repair for repair in repairs if repair.severity is not Severity.NOTICE]
        return {
            "problems": [build_repair_view(repair, operates_host=operates_host) for repair in urgent[:_MAX_PROBLEMS]],
            "problem_count": len(urgent),
            "more_problems": max(0, len(urgent) - _MAX_PROBLEMS),
            "notices": len(repairs) - len(urgent),
            "doubts": doubts,
            "unknown": None,
        }


@dataclass(frozen=True, slots=True)
class HomeSummary:
    """The heading of the home page."""

    heading: str
    line: str
    mood: Literal["good", "busy", "bad"]


def summarize_home(
    plugins: Sequence[PluginSummary], *, problems: int, waiting: int, more_waiting: bool, calls: int, operates: bool
) -> HomeSummary:
    """Return the heading and the line below it.

    Args:
        plugins: The plugins that the caller sees.
        problems: Number of open problems.
        waiting: Number of requests that the caller can answer.
        more_waiting: Whether there are more than those.
        calls: Number of running calls.
        operates: Whether the caller sees everything of its tenant.
    """
    requests = f"{waiting}{'+' if more_waiting else ''} {'request is' if waiting == 1 else 'requests are'} waiting"
    mood: Literal["good", "busy", "bad"]
    if problems:
        heading, mood = ("Something needs" if problems == 1 else f"{problems:,} things need") + " your attention", "bad"
        heading += f", and {requests} for you" if waiting else ""
    elif waiting:
        heading, mood = f"{requests} for you", "busy"
    elif not plugins:
        heading, mood = "Welcome to Paddock", "good"
    else:
        heading, mood = "All is well", "good"
    return HomeSummary(heading, _summary_line(plugins, calls, operates), mood)


def _summary_line(plugins: Sequence[PluginSummary], calls: int, operates: bool) -> str:
    if not plugins:
        return ""
    running = sum(plugin.mood == "good" for plugin in plugins)
    parts = [count_text(len(plugins), "plugin") + ("" if operates else " you can use")]
    if operates:
        parts[0] += f", {running:,} running"
    if calls:
        parts.append(f"{count_text(calls, 'call')} under way")
    return " · ".join(parts)


def select_tiles(plugins: Iterable[PluginSummary]) -> tuple[list[PluginSummary], int]:
    """Return the plugins to show, those that need attention first, and how many are left out."""
    ordered = sorted(plugins, key=lambda plugin: (_SEVERITY_RANK[plugin.mood], plugin.name))
    return ordered[:MAX_TILES], max(0, len(ordered) - MAX_TILES)

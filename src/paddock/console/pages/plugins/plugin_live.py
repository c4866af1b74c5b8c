"""The parts of a plugin's pages that are updated live: state, counts, tools, charts and calls.

All of them depend on the tenant and the plugin alone, since only operators see them. A page has one stream for all its
parts: browsers open few connections to one host.

Definitions that wait for an acceptance are not among them. Their server chooses when they change, and could put another
text under a button that someone is about to press; an open page is only told that they changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.live_fragments import LiveFragments
from paddock.console.page import Page
from paddock.console.pages.plugins.charts import (
    calls_chart,
    duration_text,
    errors_chart,
    latency_chart,
    size_text,
    tool_sparkline,
)
from paddock.console.pages.plugins.plugin_calls import list_calls
from paddock.console.pages.plugins.plugin_header import live_values
from paddock.console.templates import NAMES, HtmlFragment, render_fragment
from paddock.console.tenant_changes import TenantChanges
from paddock.core.canonical import hash_of
from paddock.core.errors import NotFound, PluginError
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.plugins.activity import ActivitySummary
from paddock.host.plugins.inventory import PluginJson
from paddock.web.request_context import call_context
from paddock.web.routing.route import MAX_NAME_CHARS, OPERATOR, path_param
from paddock.web.sse import event_stream

_MIN_INTERVAL_S: Final = 2.0  # between two updates of a page, however much happens
_MAX_AGE_S: Final = 4.0  # of a state that changes without an entry
_REVIEWED_STATES: Final = ("accepted", "gone")  # definitions that need no review
_SHOWN_FIELDS: Final = ("kind", "name", "standing", "reason", "repair", "hash", "waiting_hash")  # of a definition


class PluginPart(StrEnum):
    """The parts that one page of a plugin has."""

    HEADER = "header"  # of every page
    OVERVIEW = "overview"  # also tools, numbers, and whether definitions changed
    CALLS = "calls"  # also the newest calls
    FAILED = "failed"  # also the newest calls that failed


class PluginReader(Struct, frozen=True):
    """Which parts of which plugin are shown.

    Attributes:
        shown_definitions: The hash of the definitions to review that the page shows; empty where it shows none.
    """

    tenant: Tenant
    plugin: str
    part: PluginPart
    shown_definitions: str = ""


class PluginLivePages:
    """Streams the parts of open pages."""

    def __init__(self, host: Host, closing: asyncio.Event, changes: TenantChanges) -> None:
        self._host = host
        self._closing = closing
        self._live = LiveFragments[PluginReader](
            self._render, changes, min_interval_s=_MIN_INTERVAL_S, max_age_s=_MAX_AGE_S
        )

    def routes(self) -> list[Page]:
        return [Page("GET", "/plugins/{name}/live", self.stream, OPERATOR)]

    async def stream(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        plugin = await self._host.plugins.inventory.show(name, context.tenant)  # NotFound before a stream starts
        text = request.query_params.get("part", "")
        part = next((one for one in PluginPart if one.value == text), PluginPart.HEADER)
        shown = request.query_params.get("definitions", "")[:MAX_NAME_CHARS] if part is PluginPart.OVERVIEW else ""
        reader = PluginReader(context.tenant, plugin["name"], part, shown)
        return event_stream(self._live.follow(reader, context.tenant), self._closing)

    async def _render(self, reader: PluginReader) -> HtmlFragment | None:
        """Render the parts of a page; None once the plugin was uninstalled."""
        tenant, name = reader.tenant, reader.plugin
        activity = await self._host.plugins.activity.summarize(name, tenant)
        try:
            plugin = await self._host.plugins.inventory.show(name, tenant)
        except (NotFound, PluginError):
            return None
        values = live_values(plugin, activity)
        if reader.part is PluginPart.HEADER:
            return render_fragment("plugins/plugin_live.html", values)
        values[NAMES] = await self._host.identity.names.read(tenant)
        if reader.part is PluginPart.OVERVIEW:
            values |= await overview_values(self._host, plugin, activity, tenant)
            values["shown_definitions"] = reader.shown_definitions
            return render_fragment("plugins/overview/plugin_overview_live.html", values)
        values |= await list_calls(self._host, tenant, name, failed=reader.part is PluginPart.FAILED)
        return render_fragment("plugins/plugin_calls_live.html", values)


async def overview_values(host: Host, plugin: PluginJson, activity: ActivitySummary, tenant: Tenant) -> dict[str, Any]:
    """Return the template values of a plugin's first page that its live parts need too."""
    runtime: Mapping[str, Any] = plugin["runtime"] or {}
    tools = await host.plugins.features.tools(plugin["name"], tenant=tenant)
    memory = await host.plugins.activity.memory_bytes(runtime.get("pid"))
    definitions: list[Any] = []
    if any(item["standing"] not in _REVIEWED_STATES for item in plugin["definitions"]):
        definitions = [
            item
            for item in await host.plugins.definitions.list_definitions(plugin["name"], tenant)
            if item["standing"] not in _REVIEWED_STATES
        ]
    return {
        "plugin": plugin,
        "runtime": runtime,
        "marks": tools["read_marks"],
        "tools_known": tools["known"],
        "listing": tools["listing"],
        "sparks": {tool["name"]: tool_sparkline(activity.by_tool.get(tool["name"], ())) for tool in plugin["tools"]},
        "definitions": definitions,
        "definitions_hash": hash_of([[item[name] for name in _SHOWN_FIELDS] for item in definitions]),
        "activity": activity,
        "charts": (calls_chart(activity), latency_chart(activity), errors_chart(activity)),
        "numbers": {
            "median": duration_text(activity.median_ms),
            "slow": duration_text(activity.slow_ms),
            "memory": size_text(memory),
        },
    }

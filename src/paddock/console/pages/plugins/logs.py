"""The log page of a plugin: the last lines with filters, live updates, and a download."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, render_page
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.console.templates import render
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.plugins.logs.log_files import one_of_lines
from paddock.host.plugins.logs.log_lines import LOG_LEVELS, LogFilter, LogLine, parse_log_line
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param
from paddock.web.sse import ServerSentEvent, event_stream

MAX_SHOWN_LINES: Final = 500  # on the page
MAX_SEARCHED_LINES: Final = 10_000  # the latest stored lines
_MAX_QUERY_CHARS: Final = 200  # of the search text
_LEVEL_LABELS: Final = {
    "": "Everything",
    "info": "Info and above",
    "warning": "Warnings and errors",
    "error": "Errors only",
}


class PluginLogPages:
    """Shows, streams and downloads the log of a plugin."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/logs", self.show, OPERATOR),
            Page("GET", "/plugins/{name}/logs/live", self.stream, OPERATOR),
            Page("GET", "/plugins/{name}/logs/text", self.download, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        context, name, log_filter = (
            await call_context(self._host, request),
            path_param(request),
            _parse_log_filter(request),
        )
        stored = await self._host.plugins.logs.read_last(
            name, tenant=context.tenant, lines=MAX_SEARCHED_LINES if _is_filtered(log_filter) else MAX_SHOWN_LINES
        )
        lines = (await asyncio.to_thread(_filter_lines, stored, log_filter))[-MAX_SHOWN_LINES:]
        query = {"q": log_filter.text, "level": log_filter.level}
        # After the last line that was read, shown or not: nothing is missed until the page follows.
        live = urlencode({**query, "after": stored[-1]["at"] if stored else ""})
        values = {
            "header": await load_header(self._host, request),
            "name": name,
            "lines": lines,
            "wanted": log_filter,
            "levels": _LEVEL_LABELS,
            "narrowed": _is_filtered(log_filter),
        }
        return render_page(request, "plugins/plugin_logs.html", {**values, "live": live, "asked": urlencode(query)})

    async def stream(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        await self._host.plugins.logs.read_last(
            name, tenant=context.tenant, lines=1
        )  # raises NotFound before a stream starts
        # A browser that reconnects sends the id of the last line it saw.
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return event_stream(self._line_events(name, context.tenant, _parse_log_filter(request), after), self._closing)

    async def _line_events(
        self, name: str, tenant: Tenant, log_filter: LogFilter, after: str
    ) -> AsyncGenerator[ServerSentEvent, None]:
        # Subscribe before reading the stored lines, so that none is missed in between; duplicates are skipped.
        async with aclosing(await self._host.plugins.logs.follow(name, tenant)) as following:
            stored = await self._host.plugins.logs.read_last(name, tenant=tenant, lines=MAX_SHOWN_LINES)
            following.skip_known(one_of_lines(stored))
            for line in map(parse_log_line, stored):
                if line.at > after and log_filter.matches(line):
                    yield _LogLineEvent(line)
            del stored
            async for entry in following:
                line = parse_log_line(entry)
                if log_filter.matches(line):
                    yield _LogLineEvent(line)

    async def download(self, request: Request) -> Response:
        context, name, log_filter = (
            await call_context(self._host, request),
            path_param(request),
            _parse_log_filter(request),
        )
        stored = await self._host.plugins.logs.read_last(name, tenant=context.tenant, lines=MAX_SEARCHED_LINES)
        text = await asyncio.to_thread(lambda: "".join(_plain_lines(_filter_lines(stored, log_filter))))
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.log"}
        return Response(text, headers=headers | {"cache-control": "no-store"}, media_type="text/plain; charset=utf-8")


class _LogLineEvent(ServerSentEvent):
    """A rendered log line as a server-sent event."""

    def __init__(self, line: LogLine) -> None:
        super().__init__({"line": line}, "line")

    def encode(self) -> bytes:
        line: LogLine = self.data["line"]
        html = render("plugins/plugin_log_lines.html", {"lines": [line]})
        parts = "".join(f"data: {part}\n" for part in html.splitlines())
        return f"id: {line.at}\nevent: {self.event}\n{parts}\n".encode()


def _parse_log_filter(request: Request) -> LogFilter:
    level = request.query_params.get("level", "")
    return LogFilter(request.query_params.get("q", "")[:_MAX_QUERY_CHARS], level if level in LOG_LEVELS else "")


def _is_filtered(log_filter: LogFilter) -> bool:
    return bool(log_filter.text or log_filter.level)


def _filter_lines(stored: Iterable[Mapping[str, Any]], log_filter: LogFilter) -> list[LogLine]:
    return [line for line in map(parse_log_line, stored) if log_filter.matches(line)]


def _plain_lines(lines: Iterable[LogLine]) -> Iterable[str]:
    for line in lines:
        yield f"{line.at} {line.level or '-'} {line.text}\n"
        yield from (f"    {step}\n" for step in line.steps)

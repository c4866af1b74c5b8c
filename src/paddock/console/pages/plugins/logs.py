"""What a plugin wrote to its log: the last lines, new ones as they come, and all of it as a text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, render_page
from paddock.console.templates import render
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.plugins.logs.log_lines import LOG_LEVELS, LogFilter, LogLine, parse_log_line
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param
from paddock.web.sse import ServerSentEvent, event_stream

MAX_SHOWN_LINES: Final = 500  # lines of the page
MAX_SEARCHED_LINES: Final = 10_000  # of those kept, the last
_MAX_QUERY_CHARS: Final = 200  # characters that are looked for
_LEVEL_LABELS: Final = {
    "": "Everything",
    "info": "Info and above",
    "warning": "Warnings and errors",
    "error": "Errors only",
}


class PluginLogPages:
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
        context, name, wanted = await call_context(self._host, request), path_param(request), _parse_log_filter(request)
        kept = await self._host.logs(
            name, tenant=context.tenant, lines=MAX_SEARCHED_LINES if _is_filtered(wanted) else MAX_SHOWN_LINES
        )
        lines = (await asyncio.to_thread(_filter_lines, kept, wanted))[-MAX_SHOWN_LINES:]
        asked = {"q": wanted.text, "level": wanted.level}
        # From the last line that was looked at, shown or not: nothing is missed until the page follows.
        live = urlencode({**asked, "after": kept[-1]["at"] if kept else ""})
        values = {
            "name": name,
            "lines": lines,
            "wanted": wanted,
            "levels": _LEVEL_LABELS,
            "narrowed": _is_filtered(wanted),
        }
        return render_page(request, "plugin_logs.html", {**values, "live": live, "asked": urlencode(asked)})

    async def stream(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        await self._host.logs(name, tenant=context.tenant, lines=1)  # not found is told before a stream begins
        # A browser that lost the connection says itself which line it saw last.
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return event_stream(self._line_events(name, context.tenant, _parse_log_filter(request), after), self._closing)

    async def _line_events(
        self, name: str, tenant: Tenant, wanted: LogFilter, after: str
    ) -> AsyncGenerator[ServerSentEvent, None]:
        # Followed before they are read, so that no line is missed between the two; one may be in both.
        async with aclosing(await self._host.follow_logs(name, tenant)) as following:
            kept = await self._host.logs(name, tenant=tenant, lines=MAX_SHOWN_LINES)
            following.skip_known(_is_one_of(kept))
            for line in map(parse_log_line, kept):
                if line.at > after and wanted.matches(line):
                    yield _LogLineEvent(line)
            del kept
            async for entry in following:
                line = parse_log_line(entry)
                if wanted.matches(line):
                    yield _LogLineEvent(line)

    async def download(self, request: Request) -> Response:
        context, name, wanted = await call_context(self._host, request), path_param(request), _parse_log_filter(request)
        kept = await self._host.logs(name, tenant=context.tenant, lines=MAX_SEARCHED_LINES)
        whole = await asyncio.to_thread(lambda: "".join(_plain_lines(_filter_lines(kept, wanted))))
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.log"}
        return Response(whole, headers=headers | {"cache-control": "no-store"}, media_type="text/plain; charset=utf-8")


class _LogLineEvent(ServerSentEvent):
    """A line of the page as an event."""

    def __init__(self, line: LogLine) -> None:
        super().__init__({"line": line}, "line")

    def encode(self) -> bytes:
        line: LogLine = self.data["line"]
        html = render("plugin_log_lines.html", {"lines": [line]})
        parts = "".join(f"data: {part}\n" for part in html.splitlines())
        return f"id: {line.at}\nevent: {self.event}\n{parts}\n".encode()


def _parse_log_filter(request: Request) -> LogFilter:
    level = request.query_params.get("level", "")
    return LogFilter(request.query_params.get("q", "")[:_MAX_QUERY_CHARS], level if level in LOG_LEVELS else "")


def _is_filtered(wanted: LogFilter) -> bool:
    return bool(wanted.text or wanted.level)


def _is_one_of(kept: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a line is one of these."""
    known = {(entry["at"], entry["line"]) for entry in kept}
    return lambda entry: (entry["at"], entry["line"]) in known


def _filter_lines(kept: Iterable[Mapping[str, Any]], wanted: LogFilter) -> list[LogLine]:
    return [line for line in map(parse_log_line, kept) if wanted.matches(line)]


def _plain_lines(lines: Iterable[LogLine]) -> Iterable[str]:
    for line in lines:
        yield f"{line.at} {line.level or '-'} {line.text}\n"
        yield from (f"    {step}\n" for step in line.steps)

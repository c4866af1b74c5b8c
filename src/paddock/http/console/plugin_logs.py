"""What a plugin wrote to its log: the last lines, new ones as they come, and all of it as a text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.log_records import LEVELS, LinesWanted, LogLine, line_of
from paddock.http.acting import context_of
from paddock.http.console.page import Page, page
from paddock.http.console.templates import render
from paddock.http.endpoint import OPERATOR, named
from paddock.http.live import Told, event_stream

SHOWN: Final = 500  # lines of the page
SEARCHED: Final = 10_000  # of those kept, the last
_LONGEST_TEXT: Final = 200  # characters that are looked for
_LEVELS: Final = {"": "Everything", "info": "Info and above", "warning": "Warnings and errors", "error": "Errors only"}


class PluginLogPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/logs", self.shown, OPERATOR),
            Page("GET", "/plugins/{name}/logs/live", self.live, OPERATOR),
            Page("GET", "/plugins/{name}/logs/text", self.text, OPERATOR),
        ]

    async def shown(self, request: Request) -> Response:
        context, name, wanted = await context_of(self._host, request), named(request), _wanted(request)
        kept = await self._host.logs(name, tenant=context.tenant, lines=SEARCHED if _narrows(wanted) else SHOWN)
        lines = (await asyncio.to_thread(_those, kept, wanted))[-SHOWN:]
        asked = {"q": wanted.text, "level": wanted.level}
        # From the last line that was looked at, shown or not: nothing is missed until the page follows.
        live = urlencode({**asked, "after": kept[-1]["at"] if kept else ""})
        values = {"name": name, "lines": lines, "wanted": wanted, "levels": _LEVELS, "narrowed": _narrows(wanted)}
        return page(request, "plugin_logs.html", {**values, "live": live, "asked": urlencode(asked)})

    async def live(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        await self._host.logs(name, tenant=context.tenant, lines=1)  # not found is told before a stream begins
        # A browser that lost the connection says itself which line it saw last.
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return event_stream(self._lines(name, context.tenant, _wanted(request), after), self._closing)

    async def _lines(self, name: str, tenant: Tenant, wanted: LinesWanted, after: str) -> AsyncGenerator[Told, None]:
        # Followed before they are read, so that no line is missed between the two; one may be in both.
        async with aclosing(await self._host.follow_logs(name, tenant)) as following:
            kept = await self._host.logs(name, tenant=tenant, lines=SHOWN)
            following.skip_past(_among(kept))
            for line in map(line_of, kept):
                if line.at > after and wanted.wants(line):
                    yield _NewLine(line)
            del kept
            async for entry in following:
                line = line_of(entry)
                if wanted.wants(line):
                    yield _NewLine(line)

    async def text(self, request: Request) -> Response:
        context, name, wanted = await context_of(self._host, request), named(request), _wanted(request)
        kept = await self._host.logs(name, tenant=context.tenant, lines=SEARCHED)
        whole = await asyncio.to_thread(lambda: "".join(_in_lines(_those(kept, wanted))))
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.log"}
        return Response(whole, headers=headers | {"cache-control": "no-store"}, media_type="text/plain; charset=utf-8")


class _NewLine(Told):
    """A line of the page as an event."""

    def __init__(self, line: LogLine) -> None:
        super().__init__({"line": line}, "line")

    def encode(self) -> bytes:
        line: LogLine = self.data["line"]
        html = render("plugin_log_lines.html", {"lines": [line]})
        parts = "".join(f"data: {part}\n" for part in html.splitlines())
        return f"id: {line.at}\nevent: {self.event}\n{parts}\n".encode()


def _wanted(request: Request) -> LinesWanted:
    level = request.query_params.get("level", "")
    return LinesWanted(request.query_params.get("q", "")[:_LONGEST_TEXT], level if level in LEVELS else "")


def _narrows(wanted: LinesWanted) -> bool:
    return bool(wanted.text or wanted.level)


def _among(kept: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a line is one of these."""
    known = {(entry["at"], entry["line"]) for entry in kept}
    return lambda entry: (entry["at"], entry["line"]) in known


def _those(kept: Iterable[Mapping[str, Any]], wanted: LinesWanted) -> list[LogLine]:
    return [line for line in map(line_of, kept) if wanted.wants(line)]


def _in_lines(lines: Iterable[LogLine]) -> Iterable[str]:
    for line in lines:
        yield f"{line.at} {line.level or '-'} {line.text}\n"
        yield from (f"    {step}\n" for step in line.steps)

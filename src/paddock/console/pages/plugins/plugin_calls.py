"""The calls of one plugin: when, which tool, who, and what came of it. Each leads to the call's own page."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, plugin_path, render_page
from paddock.console.pages.ledger.filters import parse_seq
from paddock.console.pages.plugins.charts import duration_text
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.console.text.call_text import call_status_text
from paddock.core.events.calls import CallEnded
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import EntryFilter
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR

_PAGE_SIZE: Final = 50


class PluginCallPages:
    """Lists the calls of a plugin, the newest first."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("GET", "/plugins/{name}/calls", self.show, OPERATOR)]

    async def show(self, request: Request) -> Response:
        context, query = await call_context(self._host, request), request.query_params
        header, failed = await load_header(self._host, request), "failed" in query
        before = parse_seq(query, "before")
        values = await list_calls(self._host, context.tenant, header.name, failed=failed, before=before)
        return render_page(request, "plugins/plugin_calls.html", {"header": header, **values})


async def list_calls(
    host: Host, tenant: Tenant, plugin: str, *, failed: bool, before: int | None = None
) -> dict[str, Any]:
    """Return the template values of one page of a plugin's calls, the newest first; only those that `failed`."""
    entries = await host.ledger.reader.page(
        tenant,
        EntryFilter(type=CallEnded.type, plugin=plugin, wrong=failed),
        before=before,
        limit=_PAGE_SIZE + 1,
    )
    at = plugin_path(plugin, "calls")
    older: dict[str, Any] = {}
    if len(entries) > _PAGE_SIZE:
        older = {**({"failed": "1"} if failed else {}), "before": entries[_PAGE_SIZE - 1].seq}
    return {
        "at": at,
        "calls": [_call_row(entry) for entry in entries[:_PAGE_SIZE]],
        "failed": failed,
        "first": before is None,
        "older": f"{at}?{urlencode(older)}" if older else "",
    }


def _call_row(entry: LedgerEntry) -> dict[str, Any]:
    facts = entry.facts
    status, error_code = str(facts.get("status", "")), str(facts.get("error_code") or "")
    return {
        "at": entry.at,
        "tool": str(facts.get("method") or facts.get("name") or ""),
        "who": str(entry.personal.get("principal") or ""),
        "status": status,
        "words": call_status_text(status, error_code),
        "code": error_code,
        "took": duration_text(float(facts.get("duration_ms") or 0.0)),
        "link": f"/calls/{quote(entry.call, safe='')}" if entry.call else f"/ledger/{quote(entry.id, safe='')}",
    }

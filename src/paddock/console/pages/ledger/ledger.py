"""Pages of the ledger: the filtered list, live updates, exports, and single entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from paddock.console.page import Page, page_names, render_page
from paddock.console.pages.ledger.export import CSV_HEADER, csv_lines, json_lines
from paddock.console.pages.ledger.filters import OUTCOMES, LedgerFilters, entry_type_options, parse_filters, parse_seq
from paddock.console.pages.ledger.lifecycle_runs import collapse_runs
from paddock.console.templates import HtmlFragment, render_fragment
from paddock.core.call import CallContext
from paddock.core.errors import HostError, Invalid, NotFound, Problem
from paddock.core.ids import Tenant
from paddock.core.printable import count_text
from paddock.host.explain.explain_service import explanations_to_json
from paddock.host.host import Host
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.text.entry_text import ENTRY_GROUPS, entry_sentence, entry_severity, type_label
from paddock.principals.caller_text import caller_text
from paddock.web.request_context import call_context
from paddock.web.routing.route import CSV, MAX_NAME_CHARS, NDJSON, OPERATOR, path_param
from paddock.web.sse import event_stream

_PAGE_SIZE = 50


class LedgerPages:
    """The ledger's list, exports and entries."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/ledger", self.show_list, OPERATOR),
            Page("GET", "/ledger/live", self.stream, OPERATOR),
            Page("GET", "/ledger/export.jsonl", self.export_jsonl, OPERATOR),
            Page("GET", "/ledger/export.csv", self.export_csv, OPERATOR),
            Page("GET", "/ledger/{id}", self.show_entry, OPERATOR),
        ]

    # --- all of it ----------------------------------------------------------------------------------------------------

    async def show_list(self, request: Request) -> Response:
        context, query = await call_context(self._host, request), request.query_params
        if entry_id := query.get("id", "").strip()[:MAX_NAME_CHARS]:
            return RedirectResponse(f"/ledger/{quote(entry_id, safe='')}", 303)
        filters = parse_filters(query)
        before, after = parse_seq(query, "before"), parse_seq(query, "after")
        # One more than is shown, to know whether there are further entries.
        page = await self._host.ledger.reader.page(
            context.tenant, filters.entry_filter, before=before, after=after, limit=_PAGE_SIZE + 1
        )
        has_more = len(page) > _PAGE_SIZE
        entries = page[-_PAGE_SIZE:] if after is not None else page[:_PAGE_SIZE]
        newer = has_more if after is not None else before is not None
        older = has_more if after is None else True
        names = page_names(request.scope)
        values = {
            "filters": filters,
            "given": filters.given,
            "groups": [(group.name, group.title) for group in ENTRY_GROUPS],
            "outcomes": OUTCOMES,
            "outcome_label": dict(OUTCOMES).get(filters.given["outcome"], ""),
            "person_name": caller_text(filters.given["principal"] or None, None, names),
            "choices": entry_type_options(
                await self._host.ledger.reader.entry_types(context.tenant), filters.given["type"]
            ),
            "names": await self._host.ledger.reader.suggest_names(context.tenant),
            "entries": collapse_runs([entry_values(entry, names) for entry in entries]),
            "newer": filters.address(after=entries[0].seq) if newer and entries else None,
            "older": filters.address(before=entries[-1].seq) if older and entries else None,
            "first": before is None and after is None,
            "follows": "live" in query and before is None and after is None,
        }
        return render_page(request, "ledger/ledger.html", values, 422 if filters.mistakes else 200)

    async def stream(self, request: Request) -> Response:
        context, filters = await call_context(self._host, request), parse_filters(request.query_params)
        return event_stream(self._fragments(context.tenant, filters), self._closing)

    async def _fragments(self, tenant: Tenant, filters: LedgerFilters) -> AsyncGenerator[HtmlFragment, None]:
        """Yield the whole list whenever it changes, at constant length."""
        async with aclosing(self._host.ledger.reader.watch_latest(tenant, filters.entry_filter, _PAGE_SIZE)) as pages:
            async for entries in pages:
                names = await self._host.identity.names.read(tenant)
                rows = [entry_values(entry, names) for entry in entries]
                yield render_fragment("ledger/ledger_entries.html", {"entries": collapse_runs(rows)})

    # --- taken away ---------------------------------------------------------------------------------------------------

    async def export_jsonl(self, request: Request) -> Response:
        return await self._export(request, NDJSON, "jsonl")

    async def export_csv(self, request: Request) -> Response:
        return await self._export(request, CSV, "csv")

    async def _export(self, request: Request, media_type: str, extension: str) -> Response:
        context, filters = await call_context(self._host, request), parse_filters(request.query_params)
        if filters.mistakes:
            # The file would not show that it contains more than was asked for.
            problems = [Problem(name, message, code="wrong_value") for name, message in filters.mistakes.items()]
            raise Invalid("these filters cannot be read", problems, code="invalid_params")
        name = f"ledger-{datetime.now(UTC):%Y-%m-%d}.{extension}"
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return StreamingResponse(
            self._export_chunks(context.tenant, filters, extension), headers=headers, media_type=media_type
        )

    async def _export_chunks(
        self, tenant: Tenant, filters: LedgerFilters, extension: str
    ) -> AsyncGenerator[bytes, None]:
        if extension == "csv":
            yield CSV_HEADER
        names = await self._host.identity.names.read(tenant)
        encode = partial(csv_lines, names=names) if extension == "csv" else json_lines
        async with aclosing(self._host.ledger.reader.export_pages(tenant, filters.entry_filter)) as pages:
            async for entries in pages:
                if self._closing.is_set():
                    return
                yield await asyncio.to_thread(encode, entries)

    # --- one thing ----------------------------------------------------------------------------------------------------

    async def show_entry(self, request: Request) -> Response:
        """Show an entry, or the entries of a request; lead from a call or an approval to the page of the call."""
        context, entry_id = await call_context(self._host, request), path_param(request, "id").strip()
        try:
            entries, altered_entries = await self._host.ledger.reader.entries_of_call(context.tenant, entry_id)
        except NotFound:
            call = await self._find_call(context, entry_id)
            if call is not None:
                return RedirectResponse(f"/calls/{quote(call, safe='')}", 303)
            return render_page(request, "ledger/story_unknown.html", {"wanted": entry_id}, 404)
        single = entries[0] if len(entries) == 1 and entries[0].id == entry_id else None
        if single is None and any(entry.call == entry_id for entry in entries):
            return RedirectResponse(f"/calls/{quote(entry_id, safe='')}", 303)
        altered = {entry.id for entry in altered_entries}
        names = page_names(request.scope)
        calls = list(dict.fromkeys(entry.call for entry in entries if entry.call))
        values = {
            "wanted": entry_id,
            "single": single,
            "heading": entry_sentence(single, names, short_names=True)
            if single
            else f"One request, {count_text(len(calls), 'call')}",
            "calls": calls,
            "entries": [
                entry_values(entry, names) | {"entry": entry, "altered": entry.id in altered} for entry in entries
            ],
            "altered": altered_entries,
        }
        return render_page(request, "ledger/story.html", values)

    async def _find_call(self, context: CallContext, entry_id: str) -> str | None:
        """Return the call that an id without entries means: an approval's, or one that has only just begun."""
        if (handle := self._host.calls.registry.get(entry_id)) and handle.context.tenant == context.tenant:
            return entry_id
        try:
            explanations = await self._host.policy.explanations.explain(entry_id, context.principal)
        except (NotFound, HostError):
            return None
        calls = explanations_to_json(entry_id, explanations)["calls"]
        return calls[0]["call_id"] if calls else None


def entry_values(entry: LedgerEntry, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the template values of an entry in a list; `names` are those of people and API keys."""
    return {
        "seq": entry.seq,
        "at": entry.at,
        "sentence": entry_sentence(entry, names, short_names=True),
        "who": entry.personal.get("principal"),
        "type": entry.type,
        "label": type_label(entry.type),
        "mood": entry_severity(entry),
        "plugin": entry.plugin,
        "link": f"/calls/{quote(entry.call, safe='')}" if entry.call else f"/ledger/{quote(entry.id, safe='')}",
    }

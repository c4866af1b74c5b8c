"""The ledger: what happened, what went wrong first where wanted, one call from end to end, and all to take away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from paddock.core.call import CallContext
from paddock.core.errors import HostError, Invalid, NotFound, Problem
from paddock.core.ids import Tenant
from paddock.core.time_text import time_text
from paddock.host.explaining import to_value
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.ledger_filters import Filters, choices, filters_of, number_in
from paddock.http.console.ledger_lines import CSV_HEAD, csv_lines, json_lines
from paddock.http.console.live_part import Part, part
from paddock.http.console.page import Page, page
from paddock.http.console.waterfall import waterfall_of
from paddock.http.endpoint import CSV, JSON_LINES, LONGEST_NAME, OPERATOR, named
from paddock.http.live import event_stream
from paddock.ledger.entry import Entry
from paddock.ledger.words.sentence import label_of, mood_of, sentence_of

_LISTED = 50


class LedgerPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/ledger", self.listed, OPERATOR),
            Page("GET", "/ledger/live", self.live, OPERATOR),
            Page("GET", "/ledger/export.jsonl", self.export_jsonl, OPERATOR),
            Page("GET", "/ledger/export.csv", self.export_csv, OPERATOR),
            Page("GET", "/ledger/{id}", self.story, OPERATOR),
        ]

    # --- all of it ----------------------------------------------------------------------------------------------------

    async def listed(self, request: Request) -> Response:
        context, query = await context_of(self._host, request), request.query_params
        if wanted := query.get("id", "").strip()[:LONGEST_NAME]:
            return RedirectResponse(f"/ledger/{quote(wanted, safe='')}", 303)
        filters = filters_of(query)
        before, after = number_in(query, "before"), number_in(query, "after")
        # One more than is shown tells whether there are any beyond.
        found = await self._host.ledger.page(
            context.tenant, filters.wanted, before=before, after=after, limit=_LISTED + 1
        )
        further = len(found) > _LISTED
        entries = found[-_LISTED:] if after is not None else found[:_LISTED]
        newer = further if after is not None else before is not None
        older = further if after is None else True
        values = {
            "filters": filters,
            "given": filters.given,
            "choices": choices(await self._host.ledger.kinds(context.tenant), filters.given["type"]),
            "names": await self._host.ledger.names(context.tenant),
            "entries": [shown(entry) for entry in entries],
            "newer": filters.address(after=entries[0].seq) if newer and entries else None,
            "older": filters.address(before=entries[-1].seq) if older and entries else None,
            "first": before is None and after is None,
            "follows": "live" in query and before is None and after is None,
        }
        return page(request, "ledger.html", values, 422 if filters.mistakes else 200)

    async def live(self, request: Request) -> Response:
        context, filters = await context_of(self._host, request), filters_of(request.query_params)
        return event_stream(self._latest(context.tenant, filters), self._closing)

    async def _latest(self, tenant: Tenant, filters: Filters) -> AsyncGenerator[Part, None]:
        """The whole list, as often as it changes: it stays as long as it was, and what is in it stays where it is."""
        async with aclosing(self._host.ledger.latest(tenant, filters.wanted, _LISTED)) as pages:
            async for entries in pages:
                yield part("ledger_entries.html", {"entries": [shown(entry) for entry in entries]})

    # --- taken away ---------------------------------------------------------------------------------------------------

    async def export_jsonl(self, request: Request) -> Response:
        return await self._export(request, JSON_LINES, "jsonl")

    async def export_csv(self, request: Request) -> Response:
        return await self._export(request, CSV, "csv")

    async def _export(self, request: Request, media: str, ending: str) -> Response:
        context, filters = await context_of(self._host, request), filters_of(request.query_params)
        if filters.mistakes:
            # Nobody would see from the file that it holds more than they asked for.
            wrong = [Problem(name, words, code="wrong_value") for name, words in filters.mistakes.items()]
            raise Invalid("these filters cannot be read", wrong, code="invalid_params")
        name = f"ledger-{datetime.now(UTC):%Y-%m-%d}.{ending}"
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return StreamingResponse(self._lines(context.tenant, filters, ending), headers=headers, media_type=media)

    async def _lines(self, tenant: Tenant, filters: Filters, ending: str) -> AsyncGenerator[bytes, None]:
        if ending == "csv":
            yield CSV_HEAD
        write = csv_lines if ending == "csv" else json_lines
        async with aclosing(self._host.ledger.everything(tenant, filters.wanted)) as pages:
            async for entries in pages:
                if self._closing.is_set():
                    return
                yield await asyncio.to_thread(write, entries)

    # --- one thing ----------------------------------------------------------------------------------------------------

    async def story(self, request: Request) -> Response:
        context, wanted = await context_of(self._host, request), named(request, "id").strip()
        explained, broken = await self._explained(context, wanted)
        try:
            entries, forged = await self._host.ledger.course(context.tenant, wanted)
        except NotFound:
            # An approval has no entries under its own id; the call that it was for has.
            if explained and (call := explained[0]["call_id"]) != wanted:
                return RedirectResponse(f"/ledger/{quote(call, safe='')}", 303)
            return page(request, "story_unknown.html", {"wanted": wanted}, 404)
        altered = {one.id for one in forged}
        single = entries[0] if len(entries) == 1 and entries[0].id == wanted else None
        values = {
            "wanted": wanted,
            "single": single,
            "heading": sentence_of(single) if single else None,
            "waterfall": waterfall_of(entries, altered, time_text(datetime.now(UTC))),
            "altered": [one for one in entries if one.id in altered],
            "answers": [shown(one) for one in entries if one.type in ("approval.answered", "approval.ended")],
            "explained": explained,
            "broken": broken,
        }
        return page(request, "story.html", values)

    async def _explained(self, context: CallContext, wanted: str) -> tuple[list[dict[str, Any]], str]:
        """Why it went as it did; nothing on the word of entries that somebody has changed, and then what to say."""
        try:
            found = await self._host.explaining.explain(wanted, context.principal)
        except NotFound:
            return [], ""
        except HostError as error:
            return [], error.message
        return to_value(wanted, found)["calls"], ""


def shown(entry: Entry) -> dict[str, Any]:
    """An entry as a line in a list."""
    return {
        "seq": entry.seq,
        "at": entry.at,
        "sentence": sentence_of(entry),
        "label": label_of(entry.type),
        "mood": mood_of(entry),
        "plugin": entry.plugin,
        "link": f"/ledger/{quote(entry.call or entry.id, safe='')}",
    }

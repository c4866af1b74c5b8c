"""The first page: what broke, what waits for me, what runs; kept up to date while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.call import CallContext
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.gate.live_call import LiveCall
from paddock.host.host import Host
from paddock.host.repairs.repair import Severity
from paddock.http.acting import context_of, is_theirs
from paddock.http.auth import caller_of
from paddock.http.console.call_words import status_of
from paddock.http.console.home_words import summary_of, tiles
from paddock.http.console.live_part import Part, part
from paddock.http.console.page import Page, operates, page
from paddock.http.console.plugin_words import told_of
from paddock.http.console.repairs import shown_repair
from paddock.http.endpoint import HOST
from paddock.http.live import event_stream

_PROBLEMS = 6  # that are shown here; the page of repairs has all of them
_LISTED = 8
_APART = 2.0  # seconds at least between two looks: each looks at the files of every plugin
_LOOKS = 8  # times that, after which it looks again, whether or not something was recorded


class HomePage:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def rows(self) -> list[Page]:
        return [Page("GET", "/", self.show), Page("GET", "/home/live", self.live)]

    async def show(self, request: Request) -> Response:
        return page(request, "home.html", await self._values(request))

    async def live(self, request: Request) -> Response:
        return event_stream(self._changes(request), self._closing)

    async def _changes(self, request: Request) -> AsyncGenerator[Part, None]:
        """What stands on the page, whenever it is not what stood there before."""
        tenant = (await context_of(self._host, request)).tenant
        shown: Part | None = None
        while True:
            end = await self._host.ledger.end(tenant)
            now = part("home_state.html", await self._values(request))
            if now != shown:
                shown = now
                yield now
            for _ in range(_LOOKS):
                await asyncio.sleep(_APART)
                if await self._host.ledger.end(tenant) != end:
                    break

    async def _values(self, request: Request) -> dict[str, Any]:
        context, caller = await context_of(self._host, request), caller_of(request)
        by, sees = context.principal, operates(caller)
        listed = await (self._host.plugins(by.tenant) if sees else self._host.offers.plugins(context))
        plugins = [told_of(one) for one in listed]
        waiting, others = await self._host.approving.pending(by, limit=_LISTED + 1)
        broken = await self._broken(context, operates_host=HOST.lets(caller)) if sees else _NOTHING_BROKE

        def theirs(live: LiveCall) -> bool:
            return sees or is_theirs(by, live.context.principal)

        recent = self._host.calls.recent(_LISTED, by.tenant, theirs)
        under_way = sum(one["status"] in ("running", "in_progress") for one in recent)
        shown, left_out = tiles(plugins)
        return broken | {
            "operates": sees,
            "may_install": HOST.lets(caller),
            "summary": summary_of(
                plugins,
                problems=broken["problem_count"],
                waiting=min(len(waiting), _LISTED),
                more_waiting=len(waiting) > _LISTED,
                calls=under_way,
                operates=sees,
            ),
            "plugins": shown,
            "left_out": left_out,
            "waiting": waiting[:_LISTED],
            "more_waiting": len(waiting) > _LISTED,
            "with_others": others[:_LISTED],
            "recent": [one | {"words": self._words(one, by.tenant)} for one in recent],
        }

    def _words(self, call: dict[str, Any], tenant: Tenant) -> str:
        error = self._host.calls.find(call["call_id"], tenant).error
        return status_of(call["status"], error.error_code if error else "")

    async def _broken(self, context: CallContext, *, operates_host: bool) -> dict[str, Any]:
        """What somebody has to see to. That nobody can tell is a problem too, and no reason to show nothing else."""
        try:
            found = (await self._host.repairs.found(context.tenant)).open
            doubts = await self._host.doubts.count(context.tenant)
        except PaddockError as error:
            return _NOTHING_BROKE | {"unknown": error, "problem_count": 1}
        urgent = [one for one in found if one.severity is not Severity.NOTICE]
        return {
            "problems": [shown_repair(one, operates_host=operates_host) for one in urgent[:_PROBLEMS]],
            "problem_count": len(urgent),
            "more_problems": max(0, len(urgent) - _PROBLEMS),
            "notices": len(found) - len(urgent),
            "doubts": doubts,
            "unknown": None,
        }


_NOTHING_BROKE: dict[str, Any] = {
    "problems": [],
    "problem_count": 0,
    "more_problems": 0,
    "notices": 0,
    "doubts": None,
    "unknown": None,
}

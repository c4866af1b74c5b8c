"""Repairs: everything that needs somebody, the worst first, each with what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NotFound, PaddockError
from paddock.host.host import Host
from paddock.host.people_only import require_person
from paddock.host.repairs.ignored import Ignored
from paddock.host.repairs.repair import Enter, Press, Repair, Severity, Visit
from paddock.http.acting import context_of
from paddock.http.auth import caller_of
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done, page
from paddock.http.endpoint import HOST, OPERATOR

_MOODS: Final = {Severity.URGENT: "bad", Severity.BROKEN: "bad", Severity.NOTICE: "busy"}
_HEADINGS: Final = {Severity.URGENT: "Urgent", Severity.BROKEN: "Broken", Severity.NOTICE: "Worth a look"}


@dataclass(frozen=True, slots=True)
class ShownRepair:
    """A repair with its ways taken apart: `others` is what only whoever operates the host can press."""

    one: Repair
    mood: str
    presses: tuple[Press, ...]
    visits: tuple[Visit, ...]
    commands: tuple[Enter, ...]
    others: bool = False
    ignored: Ignored | None = None
    failed: PaddockError | None = None


def shown_repair(
    one: Repair, *, operates_host: bool, ignored: Ignored | None = None, failed: PaddockError | None = None
) -> ShownRepair:
    """A repair for somebody: buttons that they may press, and commands only where they may have a shell. Pure."""
    presses = tuple(way for way in one.ways if isinstance(way, Press))
    theirs = tuple(way for way in presses if operates_host or not way.host_only)
    return ShownRepair(
        one,
        _MOODS[one.severity],
        theirs,
        tuple(way for way in one.ways if isinstance(way, Visit)),
        tuple(way for way in one.ways if isinstance(way, Enter)) if operates_host else (),
        others=len(theirs) < len(presses),
        ignored=ignored,
        failed=failed,
    )


class RepairPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/repairs", self.listed, OPERATOR),
            Page("POST", "/repairs/check", self.check, OPERATOR),
            Page("POST", "/repairs/fix", self.fix, OPERATOR),
            Page("POST", "/repairs/ignore", self.ignore, OPERATOR),
            Page("POST", "/repairs/watch", self.watch, OPERATOR),
        ]

    async def listed(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(
        self, request: Request, *, failed: tuple[str, PaddockError] | None = None, status: int = 200
    ) -> Response:
        context = await context_of(self._host, request)
        found = await self._host.repairs.found(context.tenant)
        operates_host = HOST.lets(caller_of(request))
        went_wrong = dict([failed] if failed else [])
        shown = [shown_repair(one, operates_host=operates_host, failed=went_wrong.get(one.id)) for one in found.open]
        values = {
            "groups": [
                (_HEADINGS[severity], severity.value, [one for one in shown if one.one.severity is severity])
                for severity in Severity
                if any(one.one.severity is severity for one in shown)
            ],
            "ignored": [shown_repair(one, operates_host=operates_host, ignored=word) for one, word in found.ignored],
            "failed": failed[1] if failed else None,
            "doubts": await self._host.doubts.count(context.tenant),
        }
        return page(request, "repairs.html", values, status)

    async def check(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        await self._host.repairs.found(context.tenant, anew=True)
        return done("/repairs", "checked")

    async def fix(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        repair, tenant, by = sent.one("repair"), context.tenant, require_person(context.principal)
        may = HOST.lets(caller_of(request))
        try:
            await self._host.repairs.mend(tenant, repair, sent.one("action"), by.id, operates_host=may)
        except NotFound as gone:
            if gone.error_code == "repair.gone":
                return done("/repairs", "repair_gone")
            return await self._page(request, failed=(repair, gone), status=409)
        except PaddockError as error:
            return await self._page(request, failed=(repair, error), status=409)
        still_there = any(one.id == repair for one in (await self._host.repairs.found(tenant)).open)
        return done("/repairs", "repair_tried" if still_there else "repaired")

    async def ignore(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        by = require_person(context.principal)
        try:
            await self._host.repairs.ignore(context.tenant, sent.one("repair"), by.id)
        except NotFound:
            return done("/repairs", "repair_gone")
        return done("/repairs", "ignored")

    async def watch(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        by = require_person(context.principal)
        try:
            await self._host.repairs.heed(context.tenant, sent.one("repair"), by.id)
        except NotFound:
            return done("/repairs", "repair_gone")
        return done("/repairs", "watched")

"""Repairs: everything that needs somebody, the worst first, each with what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import NotFound, PaddockError
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.repairs.ignore_list import IgnoredRepair
from paddock.host.repairs.repair import Repair, RepairButton, RepairCommand, RepairLink, Severity
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, OPERATOR
from paddock.web.security.authenticate import caller_of

_SEVERITY_CLASSES: Final = {Severity.URGENT: "bad", Severity.BROKEN: "bad", Severity.NOTICE: "busy"}
_SEVERITY_HEADINGS: Final = {Severity.URGENT: "Urgent", Severity.BROKEN: "Broken", Severity.NOTICE: "Worth a look"}


@dataclass(frozen=True, slots=True)
class RepairView:
    """A repair with its ways taken apart: `others` is what only whoever operates the host can press."""

    one: Repair
    mood: str
    presses: tuple[RepairButton, ...]
    visits: tuple[RepairLink, ...]
    commands: tuple[RepairCommand, ...]
    others: bool = False
    ignored: IgnoredRepair | None = None
    failed: PaddockError | None = None


def build_repair_view(
    one: Repair, *, operates_host: bool, ignored: IgnoredRepair | None = None, failed: PaddockError | None = None
) -> RepairView:
    """A repair for somebody: buttons that they may press, and commands only where they may have a shell. Pure."""
    presses = tuple(way for way in one.ways if isinstance(way, RepairButton))
    theirs = tuple(way for way in presses if operates_host or not way.host_only)
    return RepairView(
        one,
        _SEVERITY_CLASSES[one.severity],
        theirs,
        tuple(way for way in one.ways if isinstance(way, RepairLink)),
        tuple(way for way in one.ways if isinstance(way, RepairCommand)) if operates_host else (),
        others=len(theirs) < len(presses),
        ignored=ignored,
        failed=failed,
    )


class RepairPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/repairs", self.show_list, OPERATOR),
            Page("POST", "/repairs/check", self.check, OPERATOR),
            Page("POST", "/repairs/fix", self.fix, OPERATOR),
            Page("POST", "/repairs/ignore", self.ignore, OPERATOR),
            Page("POST", "/repairs/watch", self.unignore, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
        self, request: Request, *, failed: tuple[str, PaddockError] | None = None, status: int = 200
    ) -> Response:
        context = await call_context(self._host, request)
        found = await self._host.repairs.list_repairs(context.tenant)
        operates_host = HOST.allows(caller_of(request))
        went_wrong = dict([failed] if failed else [])
        shown = [
            build_repair_view(one, operates_host=operates_host, failed=went_wrong.get(one.id)) for one in found.open
        ]
        values = {
            "groups": [
                (_SEVERITY_HEADINGS[severity], severity.value, [one for one in shown if one.one.severity is severity])
                for severity in Severity
                if any(one.one.severity is severity for one in shown)
            ],
            "ignored": [
                build_repair_view(one, operates_host=operates_host, ignored=word) for one, word in found.ignored
            ],
            "failed": failed[1] if failed else None,
            "doubts": await self._host.unknown_outcomes.count(context.tenant),
        }
        return render_page(request, "repairs.html", values, status)

    async def check(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        await self._host.repairs.list_repairs(context.tenant, anew=True)
        return redirect_with_flash("/repairs", "checked")

    async def fix(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        repair, tenant, by = sent.last_text("repair"), context.tenant, require_interactive_person(context.principal)
        may = HOST.allows(caller_of(request))
        try:
            await self._host.repairs.run_action(tenant, repair, sent.last_text("action"), by.id, operates_host=may)
        except NotFound as gone:
            if gone.error_code == "repair.gone":
                return redirect_with_flash("/repairs", "repair_gone")
            return await self._render(request, failed=(repair, gone), status=409)
        except PaddockError as error:
            return await self._render(request, failed=(repair, error), status=409)
        still_there = any(one.id == repair for one in (await self._host.repairs.list_repairs(tenant)).open)
        return redirect_with_flash("/repairs", "repair_tried" if still_there else "repaired")

    async def ignore(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        by = require_interactive_person(context.principal)
        try:
            await self._host.repairs.ignore(context.tenant, sent.last_text("repair"), by.id)
        except NotFound:
            return redirect_with_flash("/repairs", "repair_gone")
        return redirect_with_flash("/repairs", "ignored")

    async def unignore(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        by = require_interactive_person(context.principal)
        try:
            await self._host.repairs.unignore(context.tenant, sent.last_text("repair"), by.id)
        except NotFound:
            return redirect_with_flash("/repairs", "repair_gone")
        return redirect_with_flash("/repairs", "watched")

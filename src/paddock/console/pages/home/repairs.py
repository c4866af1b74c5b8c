"""The repairs page: detected problems by severity, each with its repair actions."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
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


class RepairView(Struct, frozen=True):
    """A repair with its actions by kind; `others` if some are only for operators of the host."""

    one: Repair
    mood: str
    presses: tuple[RepairButton, ...]
    visits: tuple[RepairLink, ...]
    commands: tuple[RepairCommand, ...]
    others: bool = False
    ignored: IgnoredRepair | None = None
    failed: PaddockError | None = None


def build_repair_view(
    repair: Repair, *, operates_host: bool, ignored: IgnoredRepair | None = None, failed: PaddockError | None = None
) -> RepairView:
    """Build the view of a repair for a caller: permitted buttons, and commands only for operators of the host. Pure."""
    buttons = tuple(action for action in repair.ways if isinstance(action, RepairButton))
    permitted = tuple(action for action in buttons if operates_host or not action.host_only)
    return RepairView(
        repair,
        _SEVERITY_CLASSES[repair.severity],
        permitted,
        tuple(
            action
            for action in repair.ways
            if isinstance(action, RepairLink) and (operates_host or not action.host_only)
        ),
        tuple(action for action in repair.ways if isinstance(action, RepairCommand)) if operates_host else (),
        others=len(permitted) < len(buttons),
        ignored=ignored,
        failed=failed,
    )


class RepairPages:
    """Lists repairs, runs their actions, and ignores them."""

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
        repairs = await self._host.repairs.list_repairs(context.tenant)
        operates_host = HOST.allows(caller_of(request))
        errors = dict([failed] if failed else [])
        views = [build_repair_view(one, operates_host=operates_host, failed=errors.get(one.id)) for one in repairs.open]
        values = {
            "groups": [
                (
                    _SEVERITY_HEADINGS[severity],
                    severity.value,
                    [view for view in views if view.one.severity is severity],
                )
                for severity in Severity
                if any(view.one.severity is severity for view in views)
            ],
            "ignored": [
                build_repair_view(one, operates_host=operates_host, ignored=ignored) for one, ignored in repairs.ignored
            ],
            "failed": failed[1] if failed else None,
            "doubts": await self._host.calls.unknown_outcomes.count(context.tenant),
        }
        return render_page(request, "home/repairs.html", values, status)

    async def check(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        await self._host.repairs.list_repairs(context.tenant, anew=True)
        return redirect_with_flash("/repairs", "checked")

    async def fix(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        repair_id, tenant, person = (
            form.last_text("repair"),
            context.tenant,
            require_interactive_person(context.principal),
        )
        operates_host = HOST.allows(caller_of(request))
        list_path = "/inbox" if form.last_text("back") == "inbox" else "/repairs"
        try:
            await self._host.repairs.run_action(
                tenant, repair_id, form.last_text("action"), person.id, operates_host=operates_host
            )
        except NotFound as not_found:
            if not_found.error_code == "repair.gone":
                return redirect_with_flash(list_path, "repair_gone")
            return await self._render(request, failed=(repair_id, not_found), status=409)
        except PaddockError as error:
            return await self._render(request, failed=(repair_id, error), status=409)
        still_there = any(
            open_repair.id == repair_id for open_repair in (await self._host.repairs.list_repairs(tenant)).open
        )
        return redirect_with_flash(list_path, "repair_tried" if still_there else "repaired")

    async def ignore(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        person = require_interactive_person(context.principal)
        try:
            await self._host.repairs.ignore(context.tenant, form.last_text("repair"), person.id)
        except NotFound:
            return redirect_with_flash("/repairs", "repair_gone")
        return redirect_with_flash("/repairs", "ignored")

    async def unignore(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        person = require_interactive_person(context.principal)
        try:
            await self._host.repairs.unignore(context.tenant, form.last_text("repair"), person.id)
        except NotFound:
            return redirect_with_flash("/repairs", "repair_gone")
        return redirect_with_flash("/repairs", "watched")

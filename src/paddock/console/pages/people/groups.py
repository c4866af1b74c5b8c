"""Pages for the groups of a tenant: list, members, and removal."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import Conflict, NotFound, Problem
from paddock.core.printable import printable
from paddock.host.host import Host
from paddock.policy.rules import Rule
from paddock.principals.name_rules import MAX_DISPLAY_NAME_CHARS, name_problems
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param

_MAX_OFFERED: Final = 200  # people to choose from; with more, the name is typed
_GROUP_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "title": "Name",
            "x-ui": {"help": "Small letters and digits, as in night-shift. It can’t be changed later."},
        },
        "title": {"type": "string", "title": "Title", "x-ui": {"help": "Shown to people."}},
    },
}


class GroupPages:
    """Manages the groups of a tenant."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        group_route = "/settings/groups/{name}"
        return [
            Page("GET", "/settings/groups", self.show_list, OPERATOR),
            Page("POST", "/settings/groups", self.add, OPERATOR),
            Page("GET", group_route, self.show, OPERATOR),
            Page("POST", f"{group_route}/members", self.add_member, OPERATOR),
            Page("POST", f"{group_route}/members/remove", self.remove_member, OPERATOR),
            Page("GET", f"{group_route}/remove", self.confirm_remove, OPERATOR),
            Page("POST", f"{group_route}/remove", self.remove, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render_list(request, build_form(build_control(_GROUP_SCHEMA)))

    async def _render_list(self, request: Request, form: FormView, status: int = 200) -> Response:
        context = await call_context(self._host, request)
        people, groups = await self._host.identity.people.list_all(context.tenant)
        values = {"groups": groups, "titles": {person.name: person.display_name for person in people}, "form": form}
        return render_page(request, "people/groups.html", values, status)

    async def add(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        shape = build_control(_GROUP_SCHEMA)
        value: dict[str, Any] = parse_fields(shape, form.texts).value
        problems = validate_group(value)
        if not problems:
            try:
                group = await self._host.identity.groups.add(context.principal, value["name"], value.get("title", ""))
                return redirect_with_flash(group_path(group.name), "group_added")
            except Conflict as error:
                problems = [replace(error.as_problem("name"), hint="choose another name")]
        return await self._render_list(request, build_form(shape, value, problems), 422)

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, typed: str = "", problem: Problem | None = None) -> Response:
        context = await call_context(self._host, request)
        group = await self._host.identity.groups.find(context.tenant, path_param(request))
        people, _ = await self._host.identity.people.list_all(context.tenant)
        others = [person for person in people if person.name not in group.members]
        values = {
            "group": group,
            "members": [person for person in people if person.name in group.members],
            "others": [(person.name, printable(person.display_name, 80)) for person in others]
            if len(others) <= _MAX_OFFERED
            else None,
            "rules": self._rules_about(group.name),
            "typed": typed,
            "problem": problem,
        }
        return render_page(request, "people/group.html", values, 422 if problem else 200)

    def _rules_about(self, group: str) -> list[Rule]:
        """Return the rules in force that name the group."""
        return [rule for rule in self._host.policy.active.policy.rules.rules if f'Group::"{group}"' in rule.source]

    async def add_member(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        name, person = path_param(request), form.last_text("person").strip()
        try:
            await self._host.identity.groups.add_member(context.principal, name, person)
        except NotFound as error:
            if error.error_code != "person.not_found":
                raise
            return await self._render(request, person, error.as_problem("person"))
        return redirect_with_flash(group_path(name), "member_added")

    async def remove_member(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        name = path_param(request)
        await self._host.identity.groups.remove_member(context.principal, name, form.last_text("person"))
        return redirect_with_flash(group_path(name), "member_removed")

    async def confirm_remove(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        group = await self._host.identity.groups.find(context.tenant, path_param(request))
        return render_page(
            request, "people/group_remove.html", {"group": group, "rules": self._rules_about(group.name)}
        )

    async def remove(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        await self._host.identity.groups.remove(context.principal, path_param(request))
        return redirect_with_flash("/settings/groups", "group_removed")


def validate_group(value: dict[str, Any]) -> list[Problem]:
    """Return all problems of a new group, with their fields."""
    name = value.get("name", "")
    problems = name_problems("group", {"name": name}) if name else [Problem("name", "a name is required")]
    if len(value.get("title", "")) > MAX_DISPLAY_NAME_CHARS:
        problems.append(Problem("title", f"is longer than {MAX_DISPLAY_NAME_CHARS} characters"))
    return problems


def group_path(name: str) -> str:
    """Return the path of a group's page."""
    return f"/settings/groups/{quote(name, safe='')}"

"""The list of a tenant's people, and the form that adds one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, render_page
from paddock.console.pages.people.person import redirect_to_person
from paddock.core.errors import Conflict, OperatorError, Problem
from paddock.host.host import Host
from paddock.principals.name_rules import MAX_DISPLAY_NAME_CHARS, ROLES, name_problems, validate_name
from paddock.principals.people import Person
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR

_MAX_LISTED_PEOPLE: Final = 200
_PERSON_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "title": "Name",
            "x-ui": {"help": "Small letters and digits, as in ann or ann@example.org. It can’t be changed later."},
        },
        "display_name": {"type": "string", "title": "Full name", "x-ui": {"help": "Shown to other people."}},
        "roles": {
            "type": "array",
            "title": "Roles",
            "items": {"enum": list(ROLES), "x-ui": {"enum_help": dict(ROLES)}},
            "default": ["member"],
        },
        "scopes": {
            "type": "array",
            "title": "Scopes",
            "items": {"type": "string"},
            "x-ui": {"help": "One per line, such as email:send. Leave empty if you don’t use scopes."},
        },
    },
}


class PeoplePages:
    """Lists and adds people."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/settings/people", self.show_list, OPERATOR),
            Page("POST", "/settings/people", self.add, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render_list(request, build_form(build_control(_PERSON_SCHEMA), {"roles": ["member"]}))

    async def _render_list(self, request: Request, form: FormView, status: int = 200) -> Response:
        context = await call_context(self._host, request)
        people, groups = await self._host.identity.people.list_all(context.tenant)
        search = request.query_params.get("q", "").strip()
        matches = filter_people(people, search)
        values = {
            "people": matches[:_MAX_LISTED_PEOPLE],
            "more": len(matches[_MAX_LISTED_PEOPLE:]),
            "words": search,
            "groups": groups,
            "known_roles": ROLES,
            "form": form,
        }
        return render_page(request, "people/people.html", values, status)

    async def add(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        shape = build_control(_PERSON_SCHEMA)
        value: dict[str, Any] = parse_fields(shape, form.texts).value
        scopes = [scope.strip() for scope in value.get("scopes", ())]
        problems = [*validate_person(value), *name_problems("scope", _by_path("scopes", scopes))]
        if not problems:
            try:
                change = await self._host.identity.people.add(
                    context.principal,
                    value["name"],
                    display_name=value.get("display_name", ""),
                    roles=value.get("roles", ()),
                    scopes=scopes,
                )
                return redirect_to_person(change, "person_added")
            except Conflict as error:
                problems = [replace(error.as_problem("name"), hint="choose another name")]
        return await self._render_list(request, build_form(shape, value, problems), 422)


def filter_people(people: Sequence[Person], search: str) -> list[Person]:
    """Return the people whose names, roles and groups contain all words."""
    terms = search.lower().split()

    def search_text(person: Person) -> str:
        return " ".join([person.name, person.display_name, *person.rights.roles, *person.rights.groups]).lower()

    return [person for person in people if all(term in search_text(person) for term in terms)]


def validate_person(value: dict[str, Any]) -> list[Problem]:
    """Return all problems of a new person, with their fields."""
    problems: list[Problem] = []
    name = value.get("name", "")
    try:
        validate_name("person", name)
    except OperatorError as error:
        problems.append(Problem("name", error.message if name else "a name is required", error.hint))
    if len(value.get("display_name", "")) > MAX_DISPLAY_NAME_CHARS:
        problems.append(Problem("display_name", f"is longer than {MAX_DISPLAY_NAME_CHARS} characters"))
    return problems


def _by_path(field: str, names: Sequence[str]) -> dict[str, str]:
    return {f"{field}[{index}]": name for index, name in enumerate(names)}

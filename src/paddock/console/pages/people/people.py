"""Pages for the people of a tenant: list, roles, enabling, and sign-in links."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.console.forms.request_form import read_form
from paddock.console.one_time_view import OneTimeView
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import Conflict, OperatorError, Problem
from paddock.host.host import Host
from paddock.host.identity.people import PersonChange
from paddock.principals.name_rules import ROLES, validate_name
from paddock.principals.people import Person
from paddock.web.daemon_address import console_url
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param

_MAX_LISTED: Final = 200
_MAX_NAME_CHARS: Final = 200
_PERSON_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "title": "Name",
            "x-ui": {"help": "Small letters and digits, as in ann or ann@example.org. It can’t be changed later."},
        },
        "display_name": {"type": "string", "title": "Full name", "x-ui": {"help": "What other people read."}},
        "roles": {
            "type": "array",
            "title": "Roles",
            "items": {"enum": list(ROLES)},
            "default": ["member"],
            "x-ui": {"enum_help": dict(ROLES)},
        },
    },
}


class PeoplePages:
    """Manages the people of a tenant."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links: OneTimeView[tuple[str, str]] = OneTimeView()

    def routes(self) -> list[Page]:
        person_route = "/settings/people/{name}"
        return [
            Page("GET", "/settings/people", self.show_list, OPERATOR),
            Page("POST", "/settings/people", self.add, OPERATOR),
            Page("GET", person_route, self.show, OPERATOR),
            Page("POST", f"{person_route}/roles", self.change_roles, OPERATOR),
            Page("POST", f"{person_route}/enable", self.enable, OPERATOR),
            Page("POST", f"{person_route}/disable", self.disable, OPERATOR),
            Page("POST", f"{person_route}/link", self.create_link, OPERATOR),
            Page("POST", f"{person_route}/sign-out", self.sign_out, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render_list(request, build_form(build_control(_PERSON_SCHEMA), {"roles": ["member"]}))

    async def _render_list(self, request: Request, form: FormView, status: int = 200) -> Response:
        context = await call_context(self._host, request)
        people, groups = await self._host.identity.people.list_all(context.tenant)
        search = request.query_params.get("q", "").strip()
        matches = filter_people(people, search)
        values = {
            "people": matches[:_MAX_LISTED],
            "more": len(matches[_MAX_LISTED:]),
            "words": search,
            "groups": groups,
            "known_roles": ROLES,
            "form": form,
        }
        return render_page(request, "people.html", values, status)

    async def add(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        shape = build_control(_PERSON_SCHEMA)
        value: dict[str, Any] = parse_fields(shape, form.texts).value
        problems = validate_person(value)
        if not problems:
            try:
                change = await self._host.identity.people.add(
                    context.principal,
                    value["name"],
                    display_name=value.get("display_name", ""),
                    roles=value.get("roles", ()),
                )
                return _redirect_to_person(change, "person_added")
            except Conflict as error:
                problems = [replace(error.as_problem("name"), hint="choose another name")]
        return await self._render_list(request, build_form(shape, value, problems), 422)

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
        self, request: Request, *, typed: str = "", problem: Problem | None = None, status: int = 200
    ) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        person = await self._host.identity.people.find(context.tenant, name)
        keys = [key for key in await self._host.identity.api_keys.list_all(context.tenant) if key.owner == person.name]
        link_key = request.query_params.get("once", "")
        link = self._links.take(context.principal.id, link_key) if request.method == "GET" else None
        values = {
            "person": person,
            "known_roles": ROLES,
            "keys": keys,
            "yourself": context.principal.id == person.id,
            "link": link[0] if link else "",
            "link_ends": link[1] if link else "",
            "missed": bool(link_key) and link is None,
            "typed": typed,
            "wrong": problem,
        }
        return render_page(request, "person.html", values, status)

    async def change_roles(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        # Apply only what was changed on the page: another operator may have changed other roles meanwhile.
        shown_roles, checked_roles = set(form.texts.get("had", ())), set(form.texts.get("role", ()))
        custom_role = form.last_text("another").strip()
        give = sorted((checked_roles - shown_roles) | ({custom_role} if custom_role else set()))
        try:
            change = await self._host.identity.people.change_rights(
                context.principal, name, "roles", give=give, take=sorted(shown_roles - checked_roles)
            )
        except OperatorError as error:
            problem = error.as_problem("another")
            return await self._render(request, typed=custom_role, problem=problem, status=422)
        return _redirect_to_person(change, "person_saved")

    async def enable(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        return _redirect_to_person(
            await self._host.identity.people.set_enabled(context.principal, path_param(request), on=True),
            "person_enabled",
        )

    async def disable(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        return _redirect_to_person(
            await self._host.identity.people.set_enabled(context.principal, path_param(request), on=False),
            "person_disabled",
        )

    async def create_link(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        base_url = await asyncio.to_thread(console_url, self._host.directories, self._host.settings.http)
        link, token = await self._host.identity.people.create_sign_in_link(context.principal, name)
        link_key = self._links.put(context.principal.id, (f"{base_url}/login/{token.reveal()}", link.expires_at))
        return RedirectResponse(f"{_person_path(name)}?once={link_key}", 303)

    async def sign_out(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        await self._host.identity.people.sign_out(context.principal, name)
        return redirect_with_flash(_person_path(name), "person_signed_out")


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
    if len(value.get("display_name", "")) > _MAX_NAME_CHARS:
        problems.append(Problem("display_name", f"is longer than {_MAX_NAME_CHARS} characters"))
    return problems


def _redirect_to_person(change: PersonChange, message_code: str) -> Response:
    return redirect_with_flash(_person_path(change.person.name), "person_several" if change.second else message_code)


def _person_path(name: str) -> str:
    return f"/settings/people/{quote(name, safe='')}"

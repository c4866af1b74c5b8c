"""The people of a tenant: who there is, what they may do, and links that sign them in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import Conflict, OperatorError, Problem
from paddock.host.host import Host
from paddock.host.people import Changed
from paddock.http.acting import context_of
from paddock.http.console.form_body import form_of
from paddock.http.console.forms.fields import Form
from paddock.http.console.forms.fields import form_of as form_with
from paddock.http.console.forms.filled import filled_in
from paddock.http.console.forms.shape import shape_of
from paddock.http.console.page import Page, done
from paddock.http.console.settings_page import settings_page
from paddock.http.console.shown_once import ShownOnce
from paddock.http.endpoint import OPERATOR, named
from paddock.http.local_address import console_url
from paddock.principals.names import ROLES, checked
from paddock.principals.people import Person

_LISTED: Final = 200
_LONGEST_NAME: Final = 200
_NEW: Final[dict[str, Any]] = {
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
    def __init__(self, host: Host) -> None:
        self._host = host
        self._links: ShownOnce[tuple[str, str]] = ShownOnce()

    def rows(self) -> list[Page]:
        one = "/settings/people/{name}"
        return [
            Page("GET", "/settings/people", self.listed, OPERATOR),
            Page("POST", "/settings/people", self.add, OPERATOR),
            Page("GET", one, self.shown, OPERATOR),
            Page("POST", f"{one}/roles", self.roles, OPERATOR),
            Page("POST", f"{one}/enable", self.enable, OPERATOR),
            Page("POST", f"{one}/disable", self.disable, OPERATOR),
            Page("POST", f"{one}/link", self.link, OPERATOR),
            Page("POST", f"{one}/sign-out", self.sign_out, OPERATOR),
        ]

    async def listed(self, request: Request) -> Response:
        return await self._list(request, form_with(shape_of(_NEW), {"roles": ["member"]}))

    async def _list(self, request: Request, form: Form, status: int = 200) -> Response:
        context = await context_of(self._host, request)
        people, groups = await self._host.people.all(context.tenant)
        words = request.query_params.get("q", "").strip()
        found = matching(people, words)
        values = {
            "people": found[:_LISTED],
            "more": len(found[_LISTED:]),
            "words": words,
            "groups": groups,
            "known_roles": ROLES,
            "form": form,
        }
        return settings_page(request, "people.html", values, status)

    async def add(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        shape = shape_of(_NEW)
        value: dict[str, Any] = filled_in(shape, sent.texts).value
        problems = mistakes_in(value)
        if not problems:
            try:
                changed = await self._host.people.add(
                    context.principal,
                    value["name"],
                    display_name=value.get("display_name", ""),
                    roles=value.get("roles", ()),
                )
                return _changed(changed, "person_added")
            except Conflict as error:
                problems = [Problem("name", error.message, "choose another name", error.error_code)]
        return await self._list(request, form_with(shape, value, problems), 422)

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(
        self, request: Request, *, typed: str = "", wrong: Problem | None = None, status: int = 200
    ) -> Response:
        context, name = await context_of(self._host, request), named(request)
        person = await self._host.people.one(context.tenant, name)
        keys = [one for one in await self._host.api_keys.all(context.tenant) if one.owner == person.name]
        once = request.query_params.get("once", "")
        link = self._links.take(context.principal.id, once) if request.method == "GET" else None
        values = {
            "person": person,
            "known_roles": ROLES,
            "keys": keys,
            "yourself": context.principal.id == person.id,
            "link": link[0] if link else "",
            "link_ends": link[1] if link else "",
            "missed": bool(once) and link is None,
            "typed": typed,
            "wrong": wrong,
        }
        return settings_page(request, "person.html", values, status)

    async def roles(self, request: Request) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        # Only what was changed on the page: somebody else may have given another role meanwhile.
        had, wanted = set(sent.texts.get("had", ())), set(sent.texts.get("role", ()))
        another = sent.one("another").strip()
        give = sorted((wanted - had) | ({another} if another else set()))
        try:
            changed = await self._host.people.change_roles(
                context.principal, name, give=give, take=sorted(had - wanted)
            )
        except OperatorError as error:
            wrong = Problem("another", error.message, error.hint)
            return await self._page(request, typed=another, wrong=wrong, status=422)
        return _changed(changed, "person_saved")

    async def enable(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        return _changed(await self._host.people.switch(context.principal, named(request), on=True), "person_enabled")

    async def disable(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        return _changed(await self._host.people.switch(context.principal, named(request), on=False), "person_disabled")

    async def link(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        base = await asyncio.to_thread(console_url, self._host.directories, self._host.settings.http)
        link, token = await self._host.people.link(context.principal, name)
        kept = self._links.keep(context.principal.id, (f"{base}/login/{token.reveal()}", link.expires_at))
        return RedirectResponse(f"{_at(name)}?once={kept}", 303)

    async def sign_out(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        await self._host.people.sign_out(context.principal, name)
        return done(_at(name), "person_signed_out")


def matching(people: Sequence[Person], words: str) -> list[Person]:
    """Those with all of these words in their names, roles and groups."""
    wanted = words.lower().split()

    def said(one: Person) -> str:
        return " ".join([one.name, one.display_name, *one.rights.roles, *one.rights.groups]).lower()

    return [one for one in people if all(word in said(one) for word in wanted)]


def mistakes_in(value: dict[str, Any]) -> list[Problem]:
    """All that is wrong with a new person, each with its field."""
    problems: list[Problem] = []
    name = value.get("name", "")
    try:
        checked("person", name)
    except OperatorError as error:
        problems.append(Problem("name", error.message if name else "everybody needs a name", error.hint))
    if len(value.get("display_name", "")) > _LONGEST_NAME:
        problems.append(Problem("display_name", f"is longer than {_LONGEST_NAME} characters"))
    return problems


def _changed(changed: Changed, said: str) -> Response:
    return done(_at(changed.person.name), "person_several" if changed.second else said)


def _at(name: str) -> str:
    return f"/settings/people/{quote(name, safe='')}"

"""The page of one person: name, roles, scopes, groups, sign-in links, and removal."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.one_time_view import OneTimeView
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import OperatorError, Problem
from paddock.host.host import Host
from paddock.host.identity.people import PersonChange
from paddock.principals.name_rules import ROLES, name_problems
from paddock.web.daemon_address import console_url
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param

_PERSON_ROUTE = "/settings/people/{name}"


class PersonPages:
    """Shows and changes one person."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links: OneTimeView[tuple[str, str]] = OneTimeView()

    def routes(self) -> list[Page]:
        return [
            Page("GET", _PERSON_ROUTE, self.show, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/rename", self.rename, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/roles", self.change_roles, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/scopes", self.change_scopes, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/groups", self.change_groups, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/enable", self.enable, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/disable", self.disable, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/link", self.create_link, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/sign-out", self.sign_out, OPERATOR),
            Page("GET", f"{_PERSON_ROUTE}/remove", self.confirm_remove, OPERATOR),
            Page("POST", f"{_PERSON_ROUTE}/remove", self.remove, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
        self, request: Request, problems: dict[str, list[Problem]] | None = None, typed: dict[str, str] | None = None
    ) -> Response:
        """Render the page, with the problems of each form and what was typed there."""
        context, name = await call_context(self._host, request), path_param(request)
        person = await self._host.identity.people.find(context.tenant, name)
        keys = [key for key in await self._host.identity.api_keys.list_all(context.tenant) if key.owner == person.name]
        link_key = request.query_params.get("once", "")
        link = self._links.take(context.principal.id, link_key) if request.method == "GET" else None
        values: dict[str, Any] = {
            "person": person,
            "known_roles": ROLES,
            "groups": await self._host.identity.groups.list_all(context.tenant),
            "keys": keys,
            "yourself": context.principal.id == person.id,
            "link": link[0] if link else "",
            "link_ends": link[1] if link else "",
            "missed": bool(link_key) and link is None,
            # An input cannot mark characters that do not show, so they are left out there.
            "typed": {"rename": "".join(filter(str.isprintable, person.display_name))} | (typed or {}),
            "problems": problems or {},
        }
        return render_page(request, "people/person.html", values, 422 if problems else 200)

    async def rename(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        display_name = form.last_text("display_name").strip()
        try:
            change = await self._host.identity.people.rename(context.principal, path_param(request), display_name)
        except OperatorError as error:
            return await self._render(request, {"rename": [error.as_problem()]}, {"rename": display_name})
        return redirect_to_person(change, "person_renamed")

    async def change_roles(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        # Apply only what was changed on the page: another operator may have changed other roles meanwhile.
        shown_roles, checked_roles = _shown_and_checked(form, "role")
        custom_role = form.last_text("another").strip()
        give = sorted((checked_roles - shown_roles) | ({custom_role} if custom_role else set()))
        if problems := name_problems("role", {role: role for role in give}):
            return await self._render(request, {"roles": problems}, {"roles": custom_role})
        change = await self._host.identity.people.change_rights(
            context.principal, name, "roles", give=give, take=sorted(shown_roles - checked_roles)
        )
        return redirect_to_person(change, "person_saved")

    async def change_scopes(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        typed = form.last_text("scopes")
        shown, wanted = set(form.texts.get("had", ())), {line.strip() for line in typed.splitlines() if line.strip()}
        if problems := name_problems("scope", {scope: scope for scope in sorted(wanted - shown)}):
            return await self._render(request, {"scopes": problems}, {"scopes": typed})
        change = await self._host.identity.people.change_rights(
            context.principal, name, "scopes", give=sorted(wanted - shown), take=sorted(shown - wanted)
        )
        return redirect_to_person(change, "person_scopes_saved")

    async def change_groups(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        person = await self._host.identity.people.find(context.tenant, name)
        shown, checked = _shown_and_checked(form, "group")
        for group in sorted(checked - shown):
            await self._host.identity.groups.add_member(context.principal, group, person.name)
        for group in sorted(shown - checked):
            await self._host.identity.groups.remove_member(context.principal, group, person.name)
        return redirect_with_flash(person_path(person.name), "person_groups_saved")

    async def enable(self, request: Request) -> Response:
        return await self._set_enabled(request, on=True)

    async def disable(self, request: Request) -> Response:
        return await self._set_enabled(request, on=False)

    async def _set_enabled(self, request: Request, *, on: bool) -> Response:
        context = await call_context(self._host, request)
        change = await self._host.identity.people.set_enabled(context.principal, path_param(request), on=on)
        return redirect_to_person(change, "person_enabled" if on else "person_disabled")

    async def create_link(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        base_url = await asyncio.to_thread(console_url, self._host.directories, self._host.settings.http)
        link, token = await self._host.identity.people.create_sign_in_link(context.principal, name)
        link_key = self._links.put(context.principal.id, (f"{base_url}/login/{token.reveal()}", link.expires_at))
        return RedirectResponse(f"{person_path(name)}?once={link_key}", 303)

    async def sign_out(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        await self._host.identity.people.sign_out(context.principal, name)
        return redirect_with_flash(person_path(name), "person_signed_out")

    async def confirm_remove(self, request: Request) -> Response:
        return await self._render_removal(request)

    async def _render_removal(self, request: Request, typed: str = "", problem: Problem | None = None) -> Response:
        context = await call_context(self._host, request)
        person = await self._host.identity.people.find(context.tenant, path_param(request))
        keys = [key for key in await self._host.identity.api_keys.list_all(context.tenant) if key.owner == person.name]
        values = {
            "person": person,
            "keys": [key for key in keys if not key.revoked_at],
            "yourself": context.principal.id == person.id,
            "typed": typed,
            "problem": problem,
        }
        return render_page(request, "people/person_remove.html", values, 422 if problem else 200)

    async def remove(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        person, typed = await self._host.identity.people.find(context.tenant, name), form.last_text("confirm").strip()
        if typed != person.name:
            problem = Problem("confirm", "that is not the name", f"type {person.name}")
            return await self._render_removal(request, typed, problem)
        await self._host.identity.people.remove(context.principal, person.name)
        return redirect_with_flash("/settings/people", "person_removed")


def _shown_and_checked(form: SubmittedForm, name: str) -> tuple[set[str], set[str]]:
    """Return the values that a group of checkboxes had when it was shown, and those that are checked now."""
    return set(form.texts.get("had", ())), set(form.texts.get(name, ()))


def redirect_to_person(change: PersonChange, message_code: str) -> Response:
    """Redirect to the page of a person who was added or changed."""
    return redirect_with_flash(person_path(change.person.name), "person_several" if change.second else message_code)


def person_path(name: str) -> str:
    """Return the path of a person's page."""
    return f"/settings/people/{quote(name, safe='')}"

"""API keys: the list, a form that makes one and shows it once, and revoking."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import FormView
from paddock.console.forms.fields import build_form as form_with
from paddock.console.forms.parse import parse_fields
from paddock.console.forms.request_form import read_form
from paddock.console.one_time_view import OneTimeView
from paddock.console.page import Page, is_operator, redirect_with_flash, render_settings_page
from paddock.core.errors import Conflict, NotFound, OperatorError, Problem
from paddock.core.secret import Secret
from paddock.host.host import Host
from paddock.policy.schema import SHIPPED_ROLES
from paddock.principals.api_keys import ApiKey
from paddock.principals.name_rules import validate_name
from paddock.principals.people import Person
from paddock.web.request_context import call_context
from paddock.web.routing.route import MEMBER, OPERATOR, path_param
from paddock.web.security.authenticate import caller_of

_LIFETIMES: Final = {
    "1": "a day",
    "30": "30 days",
    "90": "90 days",
    "365": "a year",
    "never": "until somebody revokes it",
}
_MAX_LABEL_CHARS: Final = 200
_MAX_LISTED: Final = 200
_FIELD_BY_ERROR_CODE: Final = {
    "person.not_found": "owner",
    "person.disabled": "owner",
    "api_key.too_much": "roles",
}
"""Where the mistakes stand that only the rows can find."""


class ApiKeyPages:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._new_keys: OneTimeView[tuple[ApiKey, Secret]] = OneTimeView()

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/settings/keys", self.show_list, MEMBER),
            Page("POST", "/settings/keys", self.create, OPERATOR),
            Page("GET", "/settings/keys/{id}/revoke", self.confirm_revoke, MEMBER),
            Page("POST", "/settings/keys/{id}/revoke", self.revoke, MEMBER),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, form: FormView | None = None, status: int = 200) -> Response:
        by, sees = (await call_context(self._host, request)).principal, is_operator(caller_of(request))
        now = datetime.now(UTC)
        keys = await (self._host.api_keys.list_all(by.tenant) if sees else self._host.api_keys.list_owned_by(by))
        live = [key for key in keys if key.state(now) == "live"]
        everything, words = "all" in request.query_params, request.query_params.get("q", "").strip()
        found = filter_keys(keys if everything else live, words)[::-1]
        if sees and form is None:
            people, _ = await self._host.people.list_all(by.tenant)
            form = form_with(build_control(key_schema(people))) if any(not one.disabled for one in people) else None
        made = self._new_keys.take(by.id, request.query_params.get("made", "")) if request.method == "GET" else None
        values = {
            "keys": [(key, key.state(now)) for key in found[:_MAX_LISTED]],
            "more": len(found[_MAX_LISTED:]),
            "words": words,
            "everything": everything,
            "ended": len(keys) - len(live),
            "form": form,
            "made": made[0] if made else None,
            "token": made[1].reveal() if made else "",
            "url": (self._host.settings.http.public_url or str(request.base_url)).rstrip("/"),
            "missed": "made" in request.query_params and made is None,
        }
        return render_settings_page(request, "api_keys.html", values, status)

    async def create(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        people, _ = await self._host.people.list_all(context.tenant)
        shape = build_control(key_schema(people))
        read = parse_fields(shape, sent.texts)
        value: dict[str, Any] = read.value
        problems = [*read.problems, *validate_key(value)]
        if problems:
            return await self._render_problems(request, shape, value, problems)
        try:
            made = await self._host.api_keys.create(
                context.principal,
                value["owner"],
                label=value.get("label", ""),
                roles=value.get("roles"),
                scopes=value.get("scopes", ()),
                expires_at=expiry_time(value["lasts"], datetime.now(UTC)),
            )
        except (OperatorError, Conflict, NotFound) as error:
            wrong = Problem(_FIELD_BY_ERROR_CODE.get(error.error_code, ""), error.message, error.hint, error.error_code)
            return await self._render_problems(request, shape, value, [wrong])
        # The address names where to find it, and not the key: it is found there once, by whoever made it.
        return RedirectResponse(f"/settings/keys?made={self._new_keys.put(context.principal.id, made)}", 303)

    async def _render_problems(
        self, request: Request, shape: FormControl, value: Any, problems: Sequence[Problem]
    ) -> Response:
        return await self._render(request, form_with(shape, value, problems), 422)

    async def confirm_revoke(self, request: Request) -> Response:
        by, wanted = (await call_context(self._host, request)).principal, path_param(request, "id")
        keys = await (
            self._host.api_keys.list_all(by.tenant)
            if is_operator(caller_of(request))
            else self._host.api_keys.list_owned_by(by)
        )
        found = next((key for key in keys if key.id == wanted), None)
        if found is None:
            raise NotFound("there is no such key", code="api_key.not_found")
        return render_settings_page(
            request, "api_key_revoke.html", {"key": found, "state": found.state(datetime.now(UTC))}
        )

    async def revoke(self, request: Request) -> Response:
        await self._host.api_keys.revoke((await call_context(self._host, request)).principal, path_param(request, "id"))
        return redirect_with_flash("/settings/keys", "key_revoked")


def filter_keys(keys: Sequence[ApiKey], words: str) -> list[ApiKey]:
    """Those with all of these words in their names, owners, roles and scopes."""
    wanted = words.lower().split()

    def said(one: ApiKey) -> str:
        return " ".join([one.id, one.label, one.owner, *one.roles, *one.scopes]).lower()

    return [one for one in keys if all(word in said(one) for word in wanted)]


def key_schema(people: Sequence[Person]) -> dict[str, Any]:
    """What a new key takes, for these people."""
    able = [one for one in people if not one.disabled]
    roles = [*SHIPPED_ROLES, *sorted({role for one in able for role in one.rights.roles} - {*SHIPPED_ROLES})]
    return {
        "type": "object",
        "required": ["owner", "lasts"],
        "properties": {
            "label": {"type": "string", "title": "Name", "x-ui": {"help": "What it’s for, such as “nightly report”."}},
            "owner": {
                "type": "string",  # of very many people none is offered, and the name is typed
                "enum": [one.name for one in able],
                "title": "Acts for",
                "x-ui": {"help": "A key never has more rights than its owner has at that moment."},
            },
            "roles": {
                "type": "array",
                "title": "Roles",
                "items": {"enum": roles},
                "x-ui": {"help": "Check none, and it has all of the owner’s roles except operator and approver."},
            },
            "scopes": {
                "type": "array",
                "title": "Scopes",
                "items": {"type": "string"},
                "x-ui": {"help": "One per line, such as email:send. Leave empty if you don’t use scopes."},
            },
            "lasts": {
                "enum": list(_LIFETIMES),
                "title": "Works for",
                "default": "90",
                "x-ui": {"enum_labels": _LIFETIMES},
            },
        },
    }


def validate_key(value: dict[str, Any]) -> list[Problem]:
    """All that is wrong with what was filled in, each with its field."""
    problems: list[Problem] = []
    if not value.get("owner"):
        problems.append(Problem("owner", "choose whom the key acts for"))
    if len(value.get("label", "")) > _MAX_LABEL_CHARS:
        problems.append(Problem("label", f"is longer than {_MAX_LABEL_CHARS} characters"))
    for number, scope in enumerate(value.get("scopes", ())):
        try:
            validate_name("scope", scope)
        except OperatorError as error:
            problems.append(Problem(f"scopes[{number}]", error.message, error.hint))
    if value.get("lasts") not in _LIFETIMES:
        problems.append(Problem("lasts", "choose how long it works"))
    return problems


def expiry_time(lasts: str, now: datetime) -> datetime | None:
    """When a key that lasts this long stops working; None for never."""
    return None if lasts == "never" else now + timedelta(days=int(lasts))

"""API key pages: the list, a form that creates a key and shows it once, and revocation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.console.forms.request_form import read_form
from paddock.console.one_time_view import OneTimeView
from paddock.console.page import Page, is_operator, redirect_with_flash, render_page
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
    "never": "until revoked",
}
_MAX_LABEL_CHARS: Final = 200
_MAX_LISTED_KEYS: Final = 200
_FIELD_BY_ERROR_CODE: Final = {
    "person.not_found": "owner",
    "person.disabled": "owner",
    "api_key.too_much": "roles",
}
"""Form fields of errors that only the database can detect."""


class ApiKeyPages:
    """Lists, creates and revokes API keys."""

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
        principal, operates = (await call_context(self._host, request)).principal, is_operator(caller_of(request))
        now = datetime.now(UTC)
        keys = await (
            self._host.identity.api_keys.list_all(principal.tenant)
            if operates
            else self._host.identity.api_keys.list_owned_by(principal)
        )
        live_keys = [key for key in keys if key.state(now) == "live"]
        show_all, search = "all" in request.query_params, request.query_params.get("q", "").strip()
        matches = filter_keys(keys if show_all else live_keys, search)[::-1]
        if operates and form is None:
            people, _ = await self._host.identity.people.list_all(principal.tenant)
            form = (
                build_form(build_control(key_schema(people))) if any(not person.disabled for person in people) else None
            )
        created = (
            self._new_keys.take(principal.id, request.query_params.get("made", "")) if request.method == "GET" else None
        )
        values = {
            "keys": [(key, key.state(now)) for key in matches[:_MAX_LISTED_KEYS]],
            "more": len(matches[_MAX_LISTED_KEYS:]),
            "words": search,
            "everything": show_all,
            "ended": len(keys) - len(live_keys),
            "form": form,
            "made": created[0] if created else None,
            "token": created[1].reveal() if created else "",
            "url": (self._host.settings.http.public_url or str(request.base_url)).rstrip("/"),
            "missed": "made" in request.query_params and created is None,
        }
        return render_page(request, "settings/api_keys.html", values, status)

    async def create(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        people, _ = await self._host.identity.people.list_all(context.tenant)
        shape = build_control(key_schema(people))
        parsed = parse_fields(shape, form.texts)
        value: dict[str, Any] = parsed.value
        problems = [*parsed.problems, *validate_key(value)]
        if problems:
            return await self._render_problems(request, shape, value, problems)
        try:
            created = await self._host.identity.api_keys.create(
                context.principal,
                value["owner"],
                label=value.get("label", ""),
                roles=value.get("roles"),
                scopes=value.get("scopes", ()),
                expires_at=expiry_time(value["lasts"], datetime.now(UTC)),
            )
        except (OperatorError, Conflict, NotFound) as error:
            problem = error.as_problem(_FIELD_BY_ERROR_CODE.get(error.error_code, ""))
            return await self._render_problems(request, shape, value, [problem])
        # The URL contains a one-time view key, not the API key: its creator can view it there once.
        return RedirectResponse(f"/settings/keys?made={self._new_keys.put(context.principal.id, created)}", 303)

    async def _render_problems(
        self, request: Request, shape: FormControl, value: Any, problems: Sequence[Problem]
    ) -> Response:
        return await self._render(request, build_form(shape, value, problems), 422)

    async def confirm_revoke(self, request: Request) -> Response:
        principal, key_id = (await call_context(self._host, request)).principal, path_param(request, "id")
        keys = await (
            self._host.identity.api_keys.list_all(principal.tenant)
            if is_operator(caller_of(request))
            else self._host.identity.api_keys.list_owned_by(principal)
        )
        api_key = next((key for key in keys if key.id == key_id), None)
        if api_key is None:
            raise NotFound("there is no such key", code="api_key.not_found")
        return render_page(
            request, "settings/api_key_revoke.html", {"key": api_key, "state": api_key.state(datetime.now(UTC))}
        )

    async def revoke(self, request: Request) -> Response:
        await self._host.identity.api_keys.revoke(
            (await call_context(self._host, request)).principal, path_param(request, "id")
        )
        return redirect_with_flash("/settings/keys", "key_revoked")


def filter_keys(keys: Sequence[ApiKey], search: str) -> list[ApiKey]:
    """Return the keys whose ids, labels, owners, roles and scopes contain all words."""
    terms = search.lower().split()

    def search_text(key: ApiKey) -> str:
        return " ".join([key.id, key.label, key.owner, *key.roles, *key.scopes]).lower()

    return [key for key in keys if all(term in search_text(key) for term in terms)]


def key_schema(people: Sequence[Person]) -> dict[str, Any]:
    """Build the schema of the form for a new key."""
    enabled = [person for person in people if not person.disabled]
    roles = [*SHIPPED_ROLES, *sorted({role for person in enabled for role in person.rights.roles} - {*SHIPPED_ROLES})]
    return {
        "type": "object",
        "required": ["owner", "lasts"],
        "properties": {
            "label": {"type": "string", "title": "Name", "x-ui": {"help": "What it’s for, such as “nightly report”."}},
            "owner": {
                "type": "string",  # with too many people for an enum, the name is typed
                "enum": [person.name for person in enabled],
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
    """Return all problems of a new key, with their fields."""
    problems: list[Problem] = []
    if not value.get("owner"):
        problems.append(Problem("owner", "choose whom the key acts for"))
    if len(value.get("label", "")) > _MAX_LABEL_CHARS:
        problems.append(Problem("label", f"is longer than {_MAX_LABEL_CHARS} characters"))
    for index, scope in enumerate(value.get("scopes", ())):
        try:
            validate_name("scope", scope)
        except OperatorError as error:
            problems.append(error.as_problem(f"scopes[{index}]"))
    if value.get("lasts") not in _LIFETIMES:
        problems.append(Problem("lasts", "choose how long it works"))
    return problems


def expiry_time(lifetime: str, now: datetime) -> datetime | None:
    """Return when a key expires; None for never."""
    return None if lifetime == "never" else now + timedelta(days=int(lifetime))

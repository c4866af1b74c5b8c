"""The form that a secret's value is given in: typed unseen, pasted with its lines, or as a file. Pure.

A value goes in and never comes out: a form with mistakes comes back without it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.errors import NotFound, OperatorError, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.secret import SECRET_NAME_RULE, Secret, is_valid_secret_name
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.secrets.usage import SharedSecret
from paddock.secrets.rows import validate_secret_value
from paddock.web.request_context import call_context
from paddock.web.routing.route import HOST, OPERATOR
from paddock.web.security.authenticate import caller_of

_RETYPE_TEXT = "Give the value again: it is never kept in a page."


def parse_secret_name(sent: SubmittedForm) -> tuple[str, list[Problem]]:
    """The name that was given, and what is wrong with it."""
    name = sent.last_text("name").strip()
    if not name:
        return name, [Problem("name", "Give it a name.")]
    if not is_valid_secret_name(name):
        return name, [Problem("name", f"No secret can be called that. Use {SECRET_NAME_RULE}.")]
    return name, []


def parse_secret_value(sent: SubmittedForm) -> tuple[Secret | None, list[Problem]]:
    """The one value that was given, and what is wrong with it."""
    file = sent.files.get("file")
    lines = sent.last_text("lines").replace("\r\n", "\n").removesuffix("\n")  # as browsers end lines
    try:
        held = file.content.decode().removesuffix("\n") if file is not None and file.content else ""
    except UnicodeDecodeError:
        return None, [Problem("file", "This file is not text.")]
    given = [
        (place, text) for place, text in (("value", sent.last_text("value")), ("lines", lines), ("file", held)) if text
    ]
    if len(given) > 1:
        return None, [Problem(place, "Give the value in one place only.") for place, _ in given]
    place, text = given[0] if given else ("value", "")
    try:
        return Secret(validate_secret_value(text, "")), []
    except OperatorError as error:
        message = "Give a value." if error.error_code == "config.no_value" else f"{error.message.capitalize()}."
        return None, [Problem(place, message)]


def problems_by_field(problems: list[Problem]) -> dict[str, list[str]]:
    """By field; where the value was right it has to be given again all the same."""
    found: dict[str, list[str]] = {}
    for one in problems:
        found.setdefault(one.path, []).append(one.message)
    if found and not found.keys() & {"value", "lines", "file"}:
        found["value"] = [_RETYPE_TEXT]
    return found


_WEBHOOK_OWNER_PREFIX = "webhook:"


class SecretPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/secrets", self.show_list, OPERATOR),
            Page("GET", "/secrets/set", self.show_form, OPERATOR),
            Page("POST", "/secrets/set", self.save, OPERATOR),
            Page("GET", "/secrets/remove", self.confirm_remove, OPERATOR),
            Page("POST", "/secrets/remove", self.remove, OPERATOR),
            Page("POST", "/secrets/rotate", self.rotate, HOST),
        ]

    async def show_list(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, *, failed: PaddockError | None = None, status: int = 200) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        shared = await self._host.secret_usage.list_shared(tenant)
        everything = await self._host.secrets.list_secrets(tenant)
        values = {
            "missing": [one for one in shared if one.missing],
            "kept": [one for one in shared if one.listed is not None],
            "wished": [one for one in shared if one.listed is None and not one.missing],
            "personal": [one for one in everything if one.owner and not one.owner.startswith(_WEBHOOK_OWNER_PREFIX)],
            "webhooks": sum(one.owner.startswith(_WEBHOOK_OWNER_PREFIX) for one in everything),
            "seal": await self._host.secrets.wrapping_key_status(),
            "may_rotate": HOST.allows(caller_of(request)),
            "failed": failed,
        }
        return render_page(request, "secrets.html", values, status)

    # --- setting one --------------------------------------------------------------------------------------------------

    async def show_form(self, request: Request) -> Response:
        return await self._render_form(request, request.query_params.get("name", "").strip())

    async def _render_form(
        self, request: Request, name: str, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        known = await self._find_shared(tenant, name)
        values = {"name": name, "known": known, "mistakes": problems_by_field(problems or []), "back": "/secrets"}
        return render_page(request, "secret_set.html", values, status)

    async def save(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        by = require_interactive_person(context.principal)
        name, problems = parse_secret_name(sent)
        value, wrong = parse_secret_value(sent)
        if problems or wrong or value is None:
            return await self._render_form(request, name, [*problems, *wrong], 422)
        try:
            await self._host.secrets.set_secret(context.tenant, name, "", value, by.id)
        except PaddockError as error:  # its key is missing, or the disk is full
            return await self._render_form(request, name, [Problem("value", _not_saved_text(error))], 409)
        return redirect_with_flash("/secrets", "secret_set")

    # --- removing one -------------------------------------------------------------------------------------------------

    async def confirm_remove(self, request: Request) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        name, owner = request.query_params.get("name", ""), request.query_params.get("owner", "")
        listed = next((one for one in await self._host.secrets.list_secrets(tenant, owner) if one.name == name), None)
        if listed is None or owner.startswith(_WEBHOOK_OWNER_PREFIX):
            raise _secret_not_found(name)
        known = await self._find_shared(tenant, name) if not owner else None
        return render_page(request, "secret_remove.html", {"listed": listed, "known": known, "mine": False})

    async def remove(self, request: Request) -> Response:
        context, sent = await call_context(self._host, request), await read_form(request)
        by, owner = require_interactive_person(context.principal), sent.last_text("owner")
        if owner.startswith(_WEBHOOK_OWNER_PREFIX):
            raise _secret_not_found(sent.last_text("name"))
        await self._host.secrets.erase(context.tenant, sent.last_text("name"), owner, by.id)
        return redirect_with_flash("/secrets", "secret_removed")

    async def _find_shared(self, tenant: Tenant, name: str) -> SharedSecret | None:
        shared = await self._host.secret_usage.list_shared(tenant)
        return next((one for one in shared if one.name == name), None)

    # --- their key ----------------------------------------------------------------------------------------------------

    async def rotate(self, request: Request) -> Response:
        by = require_interactive_person((await call_context(self._host, request)).principal)
        try:
            rotated = await self._host.secrets.rotate(by.id)
        except PaddockError as error:
            return await self._render(request, failed=error, status=409)
        if rotated is not None and (rotated.left or rotated.kept):
            return redirect_with_flash("/secrets", "rotated_partly")
        return redirect_with_flash("/secrets", "rotated")


def _secret_not_found(name: str) -> NotFound:
    return NotFound(
        f"there is no secret {printable(name, 128)}", code="secret.not_found", hint="look at the list again"
    )


def _not_saved_text(error: PaddockError) -> str:
    hint = f" {error.hint}" if error.hint else ""
    return f"It was not kept: {error.message}.{hint}"

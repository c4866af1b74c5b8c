"""The secrets page of a tenant: lists, sets, removes and re-encrypts secrets; also the parser of the secret form.

A value can be typed, pasted as lines, or uploaded as a file. It is never shown: a form with problems comes back
without it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import SubmittedForm, read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.core.action import with_sentence
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
_WEBHOOK_OWNER_PREFIX = "webhook:"


class SecretPages:
    """Manages the secrets of a tenant."""

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
        shared = await self._host.secrets.usage.list_shared(tenant)
        all_secrets = await self._host.secrets.store.list_secrets(tenant)
        values = {
            "missing": [secret for secret in shared if secret.missing],
            "kept": [secret for secret in shared if secret.listed is not None],
            "wished": [secret for secret in shared if secret.listed is None and not secret.missing],
            "personal": [
                secret for secret in all_secrets if secret.owner and not secret.owner.startswith(_WEBHOOK_OWNER_PREFIX)
            ],
            "webhooks": sum(secret.owner.startswith(_WEBHOOK_OWNER_PREFIX) for secret in all_secrets),
            "seal": await self._host.secrets.store.wrapping_key_status(),
            "may_rotate": HOST.allows(caller_of(request)),
            "failed": failed,
        }
        return render_page(request, "settings/secrets.html", values, status)

    # --- setting one --------------------------------------------------------------------------------------------------

    async def show_form(self, request: Request) -> Response:
        return await self._render_form(request, request.query_params.get("name", "").strip())

    async def _render_form(
        self, request: Request, name: str, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        shared = await self._find_shared(tenant, name)
        values = {"name": name, "known": shared, "mistakes": problems_by_field(problems or []), "back": "/secrets"}
        return render_page(request, "settings/secret_set.html", values, status)

    async def save(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        person = require_interactive_person(context.principal)
        name, problems = parse_secret_name(form)
        value, value_problems = parse_secret_value(form)
        if problems or value_problems or value is None:
            return await self._render_form(request, name, [*problems, *value_problems], 422)
        try:
            await self._host.secrets.store.set_secret(context.tenant, name, "", value, person.id)
        except PaddockError as error:  # for example its wrapping key is missing, or the disk is full
            return await self._render_form(request, name, [Problem("value", _not_saved_text(error))], 409)
        return redirect_with_flash("/secrets", "secret_set")

    # --- removing one -------------------------------------------------------------------------------------------------

    async def confirm_remove(self, request: Request) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        name, owner = request.query_params.get("name", ""), request.query_params.get("owner", "")
        listed = next(
            (secret for secret in await self._host.secrets.store.list_secrets(tenant, owner) if secret.name == name),
            None,
        )
        if listed is None or owner.startswith(_WEBHOOK_OWNER_PREFIX):
            raise _secret_not_found(name)
        shared = await self._find_shared(tenant, name) if not owner else None
        return render_page(request, "settings/secret_remove.html", {"listed": listed, "known": shared, "mine": False})

    async def remove(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        person, owner = require_interactive_person(context.principal), form.last_text("owner")
        if owner.startswith(_WEBHOOK_OWNER_PREFIX):
            raise _secret_not_found(form.last_text("name"))
        await self._host.secrets.store.erase(context.tenant, form.last_text("name"), owner, person.id)
        return redirect_with_flash("/secrets", "secret_removed")

    async def _find_shared(self, tenant: Tenant, name: str) -> SharedSecret | None:
        shared = await self._host.secrets.usage.list_shared(tenant)
        return next((secret for secret in shared if secret.name == name), None)

    # --- their key ----------------------------------------------------------------------------------------------------

    async def rotate(self, request: Request) -> Response:
        person = require_interactive_person((await call_context(self._host, request)).principal)
        try:
            rotation = await self._host.secrets.store.rotate(person.id)
        except PaddockError as error:
            return await self._render(request, failed=error, status=409)
        if rotation is not None and (rotation.left or rotation.kept):
            return redirect_with_flash("/secrets", "rotated_partly")
        return redirect_with_flash("/secrets", "rotated")


def parse_secret_name(form: SubmittedForm) -> tuple[str, list[Problem]]:
    """Return the submitted name and its problems."""
    name = form.last_text("name").strip()
    if not name:
        return name, [Problem("name", "Give it a name.")]
    if not is_valid_secret_name(name):
        return name, [Problem("name", f"No secret can be called that. Use {SECRET_NAME_RULE}.")]
    return name, []


def parse_secret_value(form: SubmittedForm) -> tuple[Secret | None, list[Problem]]:
    """Return the one submitted value and its problems."""
    file = form.files.get("file")
    lines = form.last_text("lines").replace("\r\n", "\n").removesuffix("\n")  # browsers submit CRLF
    try:
        file_text = file.content.decode().removesuffix("\n") if file is not None and file.content else ""
    except UnicodeDecodeError:
        return None, [Problem("file", "This file is not text.")]
    inputs = [
        (field, text)
        for field, text in (("value", form.last_text("value")), ("lines", lines), ("file", file_text))
        if text
    ]
    if len(inputs) > 1:
        return None, [Problem(field, "Give the value in one place only.") for field, _ in inputs]
    field, text = inputs[0] if inputs else ("value", "")
    try:
        return Secret(validate_secret_value(text, "")), []
    except OperatorError as error:
        message = "Give a value." if error.error_code == "config.no_value" else f"{error.message.capitalize()}."
        return None, [Problem(field, message)]


def problems_by_field(problems: list[Problem]) -> dict[str, list[str]]:
    """Group problems by field; the value must be entered again even if it was valid."""
    messages: dict[str, list[str]] = {}
    for problem in problems:
        messages.setdefault(problem.path, []).append(problem.message)
    if messages and not messages.keys() & {"value", "lines", "file"}:
        messages["value"] = [_RETYPE_TEXT]
    return messages


def _secret_not_found(name: str) -> NotFound:
    return NotFound(
        f"there is no secret {printable(name, 128)}", code="secret.not_found", hint="look at the list again"
    )


def _not_saved_text(error: PaddockError) -> str:
    return f"It was not saved: {error.message}. {with_sentence(error.hint, error.action)}".rstrip()

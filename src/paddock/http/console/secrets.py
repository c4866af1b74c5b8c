"""Secrets of a tenant: which there are and who uses them, which are missing, and the key that they are sealed under.

No value is ever on a page. What a form sends goes into the vault, and a form with mistakes comes back without it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NotFound, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.host.host import Host
from paddock.host.people_only import require_person
from paddock.host.secret_uses import KeptSecret
from paddock.http.acting import context_of
from paddock.http.auth import caller_of
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done, page
from paddock.http.console.secret_form import given_value, mistakes_of, named_secret
from paddock.http.endpoint import HOST, OPERATOR

_WEBHOOKS = "webhook:"


class SecretPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/secrets", self.listed, OPERATOR),
            Page("GET", "/secrets/set", self.ask, OPERATOR),
            Page("POST", "/secrets/set", self.keep, OPERATOR),
            Page("GET", "/secrets/remove", self.ask_to_remove, OPERATOR),
            Page("POST", "/secrets/remove", self.remove, OPERATOR),
            Page("POST", "/secrets/rotate", self.rotate, HOST),
        ]

    async def listed(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(self, request: Request, *, failed: PaddockError | None = None, status: int = 200) -> Response:
        tenant = (await context_of(self._host, request)).tenant
        shared = await self._host.secret_overview.shared(tenant)
        everything = await self._host.secrets.listed(tenant)
        values = {
            "missing": [one for one in shared if one.missing],
            "kept": [one for one in shared if one.listed is not None],
            "wished": [one for one in shared if one.listed is None and not one.missing],
            "personal": [one for one in everything if one.owner and not one.owner.startswith(_WEBHOOKS)],
            "webhooks": sum(one.owner.startswith(_WEBHOOKS) for one in everything),
            "seal": await self._host.secrets.seal(),
            "may_rotate": HOST.lets(caller_of(request)),
            "failed": failed,
        }
        return page(request, "secrets.html", values, status)

    # --- setting one --------------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        return await self._form(request, request.query_params.get("name", "").strip())

    async def _form(
        self, request: Request, name: str, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        tenant = (await context_of(self._host, request)).tenant
        known = await self._known(tenant, name)
        values = {"name": name, "known": known, "mistakes": mistakes_of(problems or []), "back": "/secrets"}
        return page(request, "secret_set.html", values, status)

    async def keep(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        by = require_person(context.principal)
        name, problems = named_secret(sent)
        value, wrong = given_value(sent)
        if problems or wrong or value is None:
            return await self._form(request, name, [*problems, *wrong], 422)
        try:
            await self._host.secrets.keep(context.tenant, name, "", value, by.id)
        except PaddockError as error:  # its key is missing, or the disk is full
            return await self._form(request, name, [Problem("value", _sentence(error))], 409)
        return done("/secrets", "secret_set")

    # --- removing one -------------------------------------------------------------------------------------------------

    async def ask_to_remove(self, request: Request) -> Response:
        tenant = (await context_of(self._host, request)).tenant
        name, owner = request.query_params.get("name", ""), request.query_params.get("owner", "")
        listed = next((one for one in await self._host.secrets.listed(tenant, owner) if one.name == name), None)
        if listed is None or owner.startswith(_WEBHOOKS):
            raise _no_such(name)
        known = await self._known(tenant, name) if not owner else None
        return page(request, "secret_remove.html", {"listed": listed, "known": known, "mine": False})

    async def remove(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        by, owner = require_person(context.principal), sent.one("owner")
        if owner.startswith(_WEBHOOKS):
            raise _no_such(sent.one("name"))
        await self._host.secrets.erase(context.tenant, sent.one("name"), owner, by.id)
        return done("/secrets", "secret_removed")

    async def _known(self, tenant: Tenant, name: str) -> KeptSecret | None:
        shared = await self._host.secret_overview.shared(tenant)
        return next((one for one in shared if one.name == name), None)

    # --- their key ----------------------------------------------------------------------------------------------------

    async def rotate(self, request: Request) -> Response:
        by = require_person((await context_of(self._host, request)).principal)
        try:
            rotated = await self._host.secrets.rotate(by.id)
        except PaddockError as error:
            return await self._page(request, failed=error, status=409)
        if rotated is not None and (rotated.left or rotated.kept):
            return done("/secrets", "rotated_partly")
        return done("/secrets", "rotated")


def _no_such(name: str) -> NotFound:
    return NotFound(
        f"there is no secret {printable(name, 128)}", code="secret.not_found", hint="look at the list again"
    )


def _sentence(error: PaddockError) -> str:
    hint = f" {error.hint}" if error.hint else ""
    return f"It was not kept: {error.message}.{hint}"

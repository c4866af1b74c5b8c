"""What is one person's own at plugins: accounts that are wanted, secrets of their own, and what they agreed to."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NotFound, PaddockError, Problem
from paddock.core.printable import printable
from paddock.host.host import Host
from paddock.host.people_only import require_person
from paddock.http.acting import context_of
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done, page
from paddock.http.console.secret_form import given_value, mistakes_of, named_secret


class AccountPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/accounts", self.listed),
            Page("GET", "/accounts/secrets/set", self.ask),
            Page("POST", "/accounts/secrets/set", self.keep),
            Page("GET", "/accounts/secrets/remove", self.ask_to_remove),
            Page("POST", "/accounts/secrets/remove", self.remove),
            Page("POST", "/accounts/consents/revoke", self.revoke),
        ]

    async def listed(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        wants = await self._host.accounts.of(context)
        wanted = {secret.name for one in wants for secret in one.secrets}
        mine = await self._host.secrets.listed(context.tenant, context.principal.person)
        values = {
            "wants": wants,
            "unused": [one for one in mine if one.name not in wanted],
            "consents": await self._host.consents.of(context.principal),
        }
        return page(request, "accounts.html", values)

    # --- secrets of their own -----------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        return await self._form(request, request.query_params.get("name", "").strip())

    async def _form(
        self, request: Request, name: str, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        context = await context_of(self._host, request)
        plugins = await self._host.accounts.require_wanted(context, name)
        mine = await self._host.secrets.listed(context.tenant, context.principal.person)
        values = {
            "name": name,
            "plugins": plugins,
            "listed": next((one for one in mine if one.name == name), None),
            "mistakes": mistakes_of(problems or []),
            "back": "/accounts",
        }
        return page(request, "account_secret.html", values, status)

    async def keep(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        by = require_person(context.principal)
        name, problems = named_secret(sent)
        await self._host.accounts.require_wanted(context, name)
        value, wrong = given_value(sent)
        if problems or wrong or value is None:
            return await self._form(request, name, [*problems, *wrong], 422)
        try:
            await self._host.secrets.keep(context.tenant, name, by.person, value, by.id)
        except PaddockError as error:
            return await self._form(request, name, [Problem("value", f"It was not kept: {error.message}.")], 409)
        return done("/accounts", "secret_set")

    async def ask_to_remove(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), request.query_params.get("name", "")
        mine = await self._host.secrets.listed(context.tenant, context.principal.person)
        listed = next((one for one in mine if one.name == name), None)
        if listed is None:
            raise NotFound(f"you have no secret {printable(name, 128)}", code="secret.not_found")
        return page(request, "secret_remove.html", {"listed": listed, "known": None, "mine": True})

    async def remove(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        by = require_person(context.principal)
        await self._host.secrets.erase(context.tenant, sent.one("name"), by.person, by.id)
        return done("/accounts", "secret_removed")

    # --- consents -----------------------------------------------------------------------------------------------------

    async def revoke(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        await self._host.consents.revoke(context.principal, sent.one("plugin"), sent.one("callable"))
        return done("/accounts", "consent_revoked")

"""The accounts page: a person's own secrets for plugins, and their consents."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.console.pages.settings.secrets import parse_secret_name, parse_secret_value, problems_by_field
from paddock.core.errors import NotFound, PaddockError, Problem
from paddock.core.printable import printable
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.web.request_context import call_context


class AccountPages:
    """Manages a person's own secrets and consents."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/accounts", self.show_list),
            Page("GET", "/accounts/secrets/set", self.show_form),
            Page("POST", "/accounts/secrets/set", self.save),
            Page("GET", "/accounts/secrets/remove", self.confirm_remove),
            Page("POST", "/accounts/secrets/remove", self.remove),
            Page("POST", "/accounts/consents/revoke", self.revoke_consent),
        ]

    async def show_list(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        requirements = await self._host.secrets.user_requirements.list_for(context)
        required_names = {secret.name for item in requirements for secret in item.secrets}
        own_secrets = await self._host.secrets.store.list_secrets(context.tenant, context.principal.person)
        values = {
            "wants": requirements,
            "unused": [item for item in own_secrets if item.name not in required_names],
            "consents": await self._host.identity.consents.list_for(context.principal),
        }
        return render_page(request, "settings/accounts.html", values)

    # --- secrets of their own -----------------------------------------------------------------------------------------

    async def show_form(self, request: Request) -> Response:
        return await self._render_form(request, request.query_params.get("name", "").strip())

    async def _render_form(
        self, request: Request, name: str, problems: list[Problem] | None = None, status: int = 200
    ) -> Response:
        context = await call_context(self._host, request)
        plugins = await self._host.secrets.user_requirements.plugins_requiring_secret(context, name)
        own_secrets = await self._host.secrets.store.list_secrets(context.tenant, context.principal.person)
        values = {
            "name": name,
            "plugins": plugins,
            "listed": next((secret for secret in own_secrets if secret.name == name), None),
            "mistakes": problems_by_field(problems or []),
            "back": "/accounts",
        }
        return render_page(request, "settings/account_secret.html", values, status)

    async def save(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        person = require_interactive_person(context.principal)
        name, problems = parse_secret_name(form)
        await self._host.secrets.user_requirements.plugins_requiring_secret(context, name)
        value, value_problems = parse_secret_value(form)
        if problems or value_problems or value is None:
            return await self._render_form(request, name, [*problems, *value_problems], 422)
        try:
            await self._host.secrets.store.set_secret(context.tenant, name, person.person, value, person.id)
        except PaddockError as error:
            return await self._render_form(request, name, [Problem("value", f"It was not kept: {error.message}.")], 409)
        return redirect_with_flash("/accounts", "secret_set")

    async def confirm_remove(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), request.query_params.get("name", "")
        own_secrets = await self._host.secrets.store.list_secrets(context.tenant, context.principal.person)
        listed = next((secret for secret in own_secrets if secret.name == name), None)
        if listed is None:
            raise NotFound(f"you have no secret {printable(name, 128)}", code="secret.not_found")
        return render_page(request, "settings/secret_remove.html", {"listed": listed, "known": None, "mine": True})

    async def remove(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        person = require_interactive_person(context.principal)
        await self._host.secrets.store.erase(context.tenant, form.last_text("name"), person.person, person.id)
        return redirect_with_flash("/accounts", "secret_removed")

    # --- consents -----------------------------------------------------------------------------------------------------

    async def revoke_consent(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        await self._host.identity.consents.revoke(
            context.principal, form.last_text("plugin"), form.last_text("callable")
        )
        return redirect_with_flash("/accounts", "consent_revoked")

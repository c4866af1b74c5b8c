"""Personal settings: identity, sessions and consents."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, redirect_with_flash, render_page
from paddock.host.host import Host
from paddock.principals.name_rules import ROLES
from paddock.web.request_context import call_context
from paddock.web.routing.route import path_param
from paddock.web.security.authenticate import caller_of
from paddock.web.security.cookies import clear_session_cookie, read_session_cookie


class PersonalSettingsPages:
    """Shows a person's identity, sessions and consents."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/settings", self.show),
            Page("POST", "/settings/sessions/{id}/end", self.end_session),
            Page("POST", "/settings/sign-out-everywhere", self.sign_out_everywhere),
            Page("POST", "/settings/consents/revoke", self.revoke_consent),
        ]

    async def show(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        token = read_session_cookie(request.headers)
        current_session = None if token is None else await self._host.identity.console_sessions.get_session(token)
        values = {
            "via": caller_of(request).via,
            "known_roles": ROLES,
            "sessions": await self._host.identity.console_sessions.list_sessions(principal),
            "here_id": current_session.id if current_session is not None else "",
            "consents": await self._host.identity.consents.list_for(principal),
        }
        return render_page(request, "settings/settings.html", values)

    async def end_session(self, request: Request) -> Response:
        await self._host.identity.console_sessions.sign_out_session(
            (await call_context(self._host, request)).principal, path_param(request, "id")
        )
        return redirect_with_flash("/settings", "session_ended")

    async def sign_out_everywhere(self, request: Request) -> Response:
        await self._host.identity.console_sessions.sign_out_everywhere(
            (await call_context(self._host, request)).principal
        )
        response = RedirectResponse("/", 303)
        clear_session_cookie(response)
        return response

    async def revoke_consent(self, request: Request) -> Response:
        context, form = await call_context(self._host, request), await read_form(request)
        await self._host.identity.consents.revoke(
            context.principal, form.last_text("plugin"), form.last_text("callable")
        )
        return redirect_with_flash("/settings", "consent_revoked")

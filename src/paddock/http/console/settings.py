"""What is somebody's own: who they are here, where they are signed in, and what they consented to."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.auth import caller_of
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done
from paddock.http.console.settings_page import settings_page
from paddock.http.cookies import session_token, take_session_away
from paddock.http.endpoint import named
from paddock.principals.names import ROLES


class SettingsPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/settings", self.me),
            Page("POST", "/settings/sessions/{id}/end", self.end_session),
            Page("POST", "/settings/sign-out-everywhere", self.sign_out_everywhere),
            Page("POST", "/settings/consents/revoke", self.revoke_consent),
        ]

    async def me(self, request: Request) -> Response:
        by = (await context_of(self._host, request)).principal
        token = session_token(request.headers)
        here = None if token is None else await self._host.console.session(token)
        values = {
            "via": caller_of(request).via,
            "known_roles": ROLES,
            "sessions": await self._host.console.sessions_of(by),
            "here_id": here.id if here is not None else "",
            "consents": await self._host.consents.of(by),
        }
        return settings_page(request, "settings.html", values)

    async def end_session(self, request: Request) -> Response:
        await self._host.console.end((await context_of(self._host, request)).principal, named(request, "id"))
        return done("/settings", "session_ended")

    async def sign_out_everywhere(self, request: Request) -> Response:
        await self._host.console.end_all((await context_of(self._host, request)).principal)
        response = RedirectResponse("/", 303)
        take_session_away(response)
        return response

    async def revoke_consent(self, request: Request) -> Response:
        context, sent = await context_of(self._host, request), await form_of(request)
        await self._host.consents.revoke(context.principal, sent.one("plugin"), sent.one("callable"))
        return done("/settings", "consent_revoked")

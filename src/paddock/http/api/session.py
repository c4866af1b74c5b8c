"""Signing in and out at the console, and who somebody is here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import Denied
from paddock.host.host import Host
from paddock.http.auth import caller_of
from paddock.http.console.notice import notice
from paddock.http.cookies import give_session, session_token, take_session_away
from paddock.http.endpoint import ANYBODY, Also, Endpoint, answer, named
from paddock.http.schemas.building import TEXT, TEXTS, TIME, YES_NO, listed, record
from paddock.principals.sessions import Session

HTML = "text/html"
LOGIN = "/login"
_SESSION = record({"id": TEXT, "via": TEXT, "opened_at": TIME, "seen_at": TIME, "expires_at": TIME})
_ME = record(
    {
        "principal": TEXT,
        "kind": TEXT,
        "person": TEXT,
        "tenant": TEXT,
        "roles": TEXTS,
        "scopes": TEXTS,
        "groups": TEXTS,
        "interactive": YES_NO,
        "via": TEXT,
    }
)


class SessionRoutes:
    """Signing in with a link, signing out, and looking at where one is signed in."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                f"{LOGIN}/{{token}}",
                self.show_login,
                "Show whom a login link signs in",
                "A page with a button. Looking at it does not use the link up, so that whoever fetches links before"
                " people do cannot.",
                gives=TEXT,
                media=HTML,
                also=(Also(403, HTML, "The link is no good, or not any more.", TEXT),),
                prefix="",
                tag="sign-in",
                who=ANYBODY,
            ),
            Endpoint(
                "POST",
                f"{LOGIN}/{{token}}",
                self.log_in,
                "Sign in with a login link",
                "The cookie of the session, on the way to the console. The link is used up.",
                status=303,
                media="",
                also=(Also(403, HTML, "The link is no good, or not any more.", TEXT),),
                prefix="",
                tag="sign-in",
                who=ANYBODY,
            ),
            Endpoint(
                "POST",
                "/logout",
                self.log_out,
                "Sign out",
                "A page. The session has ended.",
                gives=TEXT,
                media=HTML,
                prefix="",
                tag="sign-in",
                who=ANYBODY,
            ),
            Endpoint(
                "GET",
                "/me",
                self.show_me,
                "Say who is asking",
                "The `principal` that the credential proves, its `tenant`, what it may do, and `via` what it is known:"
                " socket, key, session or token.",
                gives=_ME,
                tag="sign-in",
            ),
            Endpoint(
                "GET",
                "/me/sessions",
                self.list_sessions,
                "List where the caller is signed in",
                "`sessions`: those at the console that have not ended.",
                gives=record({"sessions": listed(_SESSION)}),
                tag="sign-in",
            ),
            Endpoint(
                "POST",
                "/me/sessions/{id}/end",
                self.end_session,
                "Sign the caller out somewhere",
                "The session that has ended.",
                gives=_SESSION,
                tag="sign-in",
            ),
        ]

    async def show_login(self, request: Request) -> Response:
        try:
            link = await self._host.console.leads_in(named(request, "token"))
        except Denied as error:
            return _refused(error)
        return notice("Sign in to Paddock", f"You will be signed in as {link.subject}.", button="Sign in")

    async def log_in(self, request: Request) -> Response:
        try:
            _session, token = await self._host.console.sign_in(named(request, "token"))
        except Denied as error:
            return _refused(error)
        response = RedirectResponse("/", 303)
        give_session(response, token)
        return response

    async def log_out(self, request: Request) -> Response:
        token = session_token(request.headers)
        if token is not None:
            await self._host.console.sign_out(token)
        response = notice("Signed out", "You are signed out on this browser.")
        take_session_away(response)
        return response

    async def show_me(self, request: Request) -> Response:
        caller = caller_of(request)
        by = caller.principal
        return answer(
            {
                "principal": by.id,
                "kind": by.kind,
                "person": by.person,
                "tenant": by.tenant,
                "roles": sorted(by.roles),
                "scopes": sorted(by.scopes),
                "groups": sorted(by.groups),
                "interactive": by.interactive,
                "via": caller.via,
            }
        )

    async def list_sessions(self, request: Request) -> Response:
        found = await self._host.console.sessions_of(caller_of(request).principal)
        return answer({"sessions": [_shown(one) for one in found]})

    async def end_session(self, request: Request) -> Response:
        return answer(_shown(await self._host.console.end(caller_of(request).principal, named(request, "id"))))


def _shown(session: Session) -> dict[str, Any]:
    told = asdict(session)
    return {name: told[name] for name in ("id", "via", "opened_at", "seen_at", "expires_at")}


def _refused(error: Denied) -> Response:
    words = " ".join(f"{part[:1].upper()}{part[1:]}." for part in (error.message, error.hint) if part)
    return notice("This link does not work any more", words, home="Signed in already? Go to the console", status=403)

"""Sign-in with a login link, sign-out, and the caller's own identity and sessions."""

from __future__ import annotations

from typing import TypedDict

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.call import PrincipalKind
from paddock.core.errors import Denied
from paddock.core.schema_annotations import DateTime
from paddock.host.host import Host
from paddock.principals.sessions import ConsoleSession
from paddock.web.routing.errors import NoticePage
from paddock.web.routing.route import PUBLIC, ApiRoute, ExtraResponse, JsonResponse, path_param
from paddock.web.security.authenticate import Via, caller_of
from paddock.web.security.cookies import clear_session_cookie, read_session_cookie, set_session_cookie

HTML_MEDIA_TYPE = "text/html"
LOGIN_PATH = "/login"


class ConsoleSessionJson(TypedDict):
    """A sign-in at the console."""

    id: str
    via: str
    opened_at: DateTime
    seen_at: DateTime
    expires_at: DateTime


class ConsoleSessionsJson(TypedDict):
    sessions: list[ConsoleSessionJson]


class CallerJson(TypedDict):
    """The authenticated caller."""

    principal: str
    kind: PrincipalKind
    person: str
    tenant: str
    roles: list[str]
    scopes: list[str]
    groups: list[str]
    interactive: bool
    via: Via


class SessionRoutes:
    """Routes for login links, sign-out, and `/me`."""

    def __init__(self, host: Host, notice_page: NoticePage) -> None:
        self._host = host
        self._notice_page = notice_page

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                f"{LOGIN_PATH}/{{token}}",
                self.show_login,
                "Show the account of a login link",
                "A page with a sign-in button. Loading it does not use up the link, so that a link preview cannot.",
                media_type=HTML_MEDIA_TYPE,
                extra_responses=(ExtraResponse(403, HTML_MEDIA_TYPE, "The link is invalid, used up or expired."),),
                prefix="",
                tag="sign-in",
                access=PUBLIC,
            ),
            ApiRoute(
                "POST",
                f"{LOGIN_PATH}/{{token}}",
                self.log_in,
                "Sign in with a login link",
                "Sets the session cookie and redirects to the console. The link is used up.",
                status=303,
                media_type="",
                extra_responses=(ExtraResponse(403, HTML_MEDIA_TYPE, "The link is invalid, used up or expired."),),
                prefix="",
                tag="sign-in",
                access=PUBLIC,
            ),
            ApiRoute(
                "POST",
                "/logout",
                self.log_out,
                "Sign out",
                "A page that confirms it. The session has ended.",
                media_type=HTML_MEDIA_TYPE,
                prefix="",
                tag="sign-in",
                access=PUBLIC,
            ),
            ApiRoute(
                "GET",
                "/me",
                self.show_me,
                "Show the authenticated caller",
                "The `principal` of the credential, its `tenant` and its rights. `via` is the kind of credential.",
                tag="sign-in",
            ),
            ApiRoute(
                "GET",
                "/me/sessions",
                self.list_sessions,
                "List the caller's console sessions",
                "`sessions` that have not ended.",
                tag="sign-in",
            ),
            ApiRoute(
                "POST",
                "/me/sessions/{id}/end",
                self.end_session,
                "End a console session of the caller",
                "The ended session.",
                tag="sign-in",
            ),
        ]

    async def show_login(self, request: Request) -> Response:
        try:
            link = await self._host.identity.console_sessions.require_valid_link(path_param(request, "token"))
        except Denied as error:
            return self._login_refused_page(error)
        return self._notice_page("Sign in to Paddock", f"You will be signed in as {link.subject}.", button="Sign in")

    async def log_in(self, request: Request) -> Response:
        try:
            _session, token = await self._host.identity.console_sessions.sign_in(path_param(request, "token"))
        except Denied as error:
            return self._login_refused_page(error)
        response = RedirectResponse("/", 303)
        set_session_cookie(response, token)
        return response

    async def log_out(self, request: Request) -> Response:
        token = read_session_cookie(request.headers)
        if token is not None:
            await self._host.identity.console_sessions.sign_out(token)
        response = self._notice_page("Signed out", "You are signed out on this browser.")
        clear_session_cookie(response)
        return response

    async def show_me(self, request: Request) -> JsonResponse[CallerJson]:
        caller = caller_of(request)
        principal = caller.principal
        return JsonResponse(
            {
                "principal": principal.id,
                "kind": principal.kind,
                "person": principal.person,
                "tenant": principal.tenant,
                "roles": sorted(principal.roles),
                "scopes": sorted(principal.scopes),
                "groups": sorted(principal.groups),
                "interactive": principal.interactive,
                "via": caller.via,
            }
        )

    async def list_sessions(self, request: Request) -> JsonResponse[ConsoleSessionsJson]:
        sessions = await self._host.identity.console_sessions.list_sessions(caller_of(request).principal)
        return JsonResponse({"sessions": [_session_to_json(session) for session in sessions]})

    async def end_session(self, request: Request) -> JsonResponse[ConsoleSessionJson]:
        return JsonResponse(
            _session_to_json(
                await self._host.identity.console_sessions.sign_out_session(
                    caller_of(request).principal, path_param(request, "id")
                )
            )
        )

    def _login_refused_page(self, error: Denied) -> Response:
        text = " ".join(f"{part[:1].upper()}{part[1:]}." for part in (error.message, error.hint) if part)
        text += f" {error.action.sentence}" if error.action else ""
        return self._notice_page(
            "This link does not work any more", text, home="Signed in already? Go to the console", status=403
        )


def _session_to_json(session: ConsoleSession) -> ConsoleSessionJson:
    return {
        "id": session.id,
        "via": session.via,
        "opened_at": session.opened_at,
        "seen_at": session.seen_at,
        "expires_at": session.expires_at,
    }

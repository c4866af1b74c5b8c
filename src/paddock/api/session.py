"""Sign-in with a login link, sign-out, and the caller's own identity and sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import Denied
from paddock.host.host import Host
from paddock.principals.sessions import ConsoleSession
from paddock.web.routing.errors import NoticePage
from paddock.web.routing.route import ANYBODY, ApiRoute, ExtraResponse, json_response, path_param
from paddock.web.routing.schema import BOOLEAN, DATE_TIME, TEXT, TEXTS, array_of, object_schema
from paddock.web.security.authenticate import caller_of
from paddock.web.security.cookies import clear_session_cookie, read_session_cookie, set_session_cookie

HTML_MEDIA_TYPE = "text/html"
LOGIN_PATH = "/login"
_SESSION_SCHEMA = object_schema(
    {"id": TEXT, "via": TEXT, "opened_at": DATE_TIME, "seen_at": DATE_TIME, "expires_at": DATE_TIME}
)
_ME_SCHEMA = object_schema(
    {
        "principal": TEXT,
        "kind": TEXT,
        "person": TEXT,
        "tenant": TEXT,
        "roles": TEXTS,
        "scopes": TEXTS,
        "groups": TEXTS,
        "interactive": BOOLEAN,
        "via": TEXT,
    }
)


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
                "Show whom a login link signs in",
                "A page with a button. Looking at it does not use the link up, so that whoever fetches links before"
                " people do cannot.",
                response_schema=TEXT,
                media_type=HTML_MEDIA_TYPE,
                extra_responses=(ExtraResponse(403, HTML_MEDIA_TYPE, "The link is no good, or not any more.", TEXT),),
                prefix="",
                tag="sign-in",
                access=ANYBODY,
            ),
            ApiRoute(
                "POST",
                f"{LOGIN_PATH}/{{token}}",
                self.log_in,
                "Sign in with a login link",
                "The cookie of the session, on the way to the console. The link is used up.",
                status=303,
                media_type="",
                extra_responses=(ExtraResponse(403, HTML_MEDIA_TYPE, "The link is no good, or not any more.", TEXT),),
                prefix="",
                tag="sign-in",
                access=ANYBODY,
            ),
            ApiRoute(
                "POST",
                "/logout",
                self.log_out,
                "Sign out",
                "A page. The session has ended.",
                response_schema=TEXT,
                media_type=HTML_MEDIA_TYPE,
                prefix="",
                tag="sign-in",
                access=ANYBODY,
            ),
            ApiRoute(
                "GET",
                "/me",
                self.show_me,
                "Say who is asking",
                "The `principal` that the credential proves, its `tenant`, what it may do, and `via` what it is known:"
                " socket, key, session or token.",
                response_schema=_ME_SCHEMA,
                tag="sign-in",
            ),
            ApiRoute(
                "GET",
                "/me/sessions",
                self.list_sessions,
                "List where the caller is signed in",
                "`sessions`: those at the console that have not ended.",
                response_schema=object_schema({"sessions": array_of(_SESSION_SCHEMA)}),
                tag="sign-in",
            ),
            ApiRoute(
                "POST",
                "/me/sessions/{id}/end",
                self.end_session,
                "Sign the caller out somewhere",
                "The session that has ended.",
                response_schema=_SESSION_SCHEMA,
                tag="sign-in",
            ),
        ]

    async def show_login(self, request: Request) -> Response:
        try:
            link = await self._host.console_sessions.require_valid_link(path_param(request, "token"))
        except Denied as error:
            return self._login_refused_page(error)
        return self._notice_page("Sign in to Paddock", f"You will be signed in as {link.subject}.", button="Sign in")

    async def log_in(self, request: Request) -> Response:
        try:
            _session, token = await self._host.console_sessions.sign_in(path_param(request, "token"))
        except Denied as error:
            return self._login_refused_page(error)
        response = RedirectResponse("/", 303)
        set_session_cookie(response, token)
        return response

    async def log_out(self, request: Request) -> Response:
        token = read_session_cookie(request.headers)
        if token is not None:
            await self._host.console_sessions.sign_out(token)
        response = self._notice_page("Signed out", "You are signed out on this browser.")
        clear_session_cookie(response)
        return response

    async def show_me(self, request: Request) -> Response:
        caller = caller_of(request)
        principal = caller.principal
        return json_response(
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

    async def list_sessions(self, request: Request) -> Response:
        sessions = await self._host.console_sessions.list_sessions(caller_of(request).principal)
        return json_response({"sessions": [_session_fields(session) for session in sessions]})

    async def end_session(self, request: Request) -> Response:
        return json_response(
            _session_fields(
                await self._host.console_sessions.sign_out_session(
                    caller_of(request).principal, path_param(request, "id")
                )
            )
        )

    def _login_refused_page(self, error: Denied) -> Response:
        text = " ".join(f"{part[:1].upper()}{part[1:]}." for part in (error.message, error.hint) if part)
        return self._notice_page(
            "This link does not work any more", text, home="Signed in already? Go to the console", status=403
        )


def _session_fields(session: ConsoleSession) -> dict[str, Any]:
    fields = asdict(session)
    return {name: fields[name] for name in ("id", "via", "opened_at", "seen_at", "expires_at")}

"""The cookie of a console session: `__Host-`, HttpOnly, and Secure.

`__Host-` and `Secure` bind it to the host that set it. Chromium 150 (tested) accepts and sends such a cookie over
plain HTTP on `127.0.0.1` and `localhost`. On any other address without TLS no browser does, so sign-in is impossible
there.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from paddock.core.errors import Denied
from paddock.core.secret import Secret
from paddock.host.host import Host
from paddock.principals.sessions import SESSION_TTL
from paddock.web.request_headers import request_headers
from paddock.web.security.allowed_hosts import SAFE_METHODS, TRUSTED_FETCH_SITES, AllowedHosts, passes_csrf_check
from paddock.web.security.authenticate import Caller, caller_of

SESSION_COOKIE: Final = "__Host-paddock"


def set_session_cookie(response: Response, token: Secret) -> None:
    """Set the session cookie. SameSite=Lax: people who follow a link to our pages stay signed in."""
    response.set_cookie(
        SESSION_COOKIE,
        token.reveal(),
        max_age=int(SESSION_TTL.total_seconds()),
        secure=True,
        httponly=True,
        samesite="lax",
    )


def clear_session_cookie(response: Response) -> None:
    """Delete the session cookie."""
    response.delete_cookie(SESSION_COOKIE, secure=True, httponly=True, samesite="lax")


def read_session_cookie(headers: Headers) -> str | None:
    """Return the session token of a request."""
    return cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)


def require_same_origin(request: Request) -> None:
    """Reject cross-site links to GET routes that make a plugin work.

    Raises:
        Denied: a foreign page made the browser send its session here.
    """
    fetch_site = request.headers.get("sec-fetch-site")
    if caller_of(request).via == "session" and fetch_site is not None and fetch_site not in TRUSTED_FETCH_SITES:
        raise _cross_site_error()


class SessionAuthenticator:
    """Authenticates session cookies."""

    def __init__(self, host: Host, allowed_hosts: AllowedHosts) -> None:
        self._host = host
        self._allowed_hosts = allowed_hosts

    async def authenticate(self, scope: Scope) -> Caller | None:
        """Return the signed-in caller; None if there is no session, or a foreign page sends a safe request.

        Raises:
            Denied: a foreign page sends an unsafe request.
        """
        if b"cookie" not in request_headers(scope):
            return None
        headers = Headers(scope=scope)
        token = read_session_cookie(headers)
        if token is None:
            return None
        if not passes_csrf_check(scope["method"], headers, self._allowed_hosts):
            if scope["method"] in SAFE_METHODS:
                return None
            raise _cross_site_error()
        try:
            return Caller(await self._host.identity.credentials.verify_session(token), None, "session")
        except Denied:
            return None  # the session has ended, but the browser still has its cookie


def _cross_site_error() -> Denied:
    return Denied(
        "nothing says that a page of this host asks for this",
        code="http.cross_site",
        hint="with a session cookie, send an Origin header with the address of this host, as in"
        " Origin: http://127.0.0.1:7433; with an API key, send no cookie",
    )

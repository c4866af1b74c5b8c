"""The cookie of a console session: for this host alone, out of reach of scripts, and only over TLS or on this machine.

`__Host-` and `Secure` bind it to the host that set it. Chromium 150 takes and sends such a cookie over plain HTTP too
where the address is `127.0.0.1` or `localhost`, as tried; on any other address without TLS no browser does, and nobody
can be signed in there.
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
    """Have the browser keep a session's token. Lax: whoever follows a link to a page of ours is still signed in."""
    response.set_cookie(
        SESSION_COOKIE,
        token.reveal(),
        max_age=int(SESSION_TTL.total_seconds()),
        secure=True,
        httponly=True,
        samesite="lax",
    )


def clear_session_cookie(response: Response) -> None:
    """Have the browser forget it."""
    response.delete_cookie(SESSION_COOKIE, secure=True, httponly=True, samesite="lax")


def read_session_cookie(headers: Headers) -> str | None:
    """The token of the session that a request brings."""
    return cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)


def require_same_origin(request: Request) -> None:
    """For what is only looked at and has a plugin work for it: a link of somebody else's page is not enough.

    Raises:
        Denied: such a page had the browser go there with its session.
    """
    said = request.headers.get("sec-fetch-site")
    if caller_of(request).via == "session" and said is not None and said not in TRUSTED_FETCH_SITES:
        raise _cross_site_error()


class SessionAuthenticator:
    """Who has a session, where a request brings one."""

    def __init__(self, host: Host, sites: AllowedHosts) -> None:
        self._host = host
        self._sites = sites

    async def authenticate(self, scope: Scope) -> Caller | None:
        """Who is signed in; None where nobody is, or a page of somebody else has the browser ask.

        Raises:
            Denied: such a page would change something.
        """
        if b"cookie" not in request_headers(scope):
            return None
        headers = Headers(scope=scope)
        token = read_session_cookie(headers)
        if token is None:
            return None
        if not passes_csrf_check(scope["method"], headers, self._sites):
            if scope["method"] in SAFE_METHODS:
                return None
            raise _cross_site_error()
        try:
            return Caller(await self._host.credentials.verify_session(token), None, "session")
        except Denied:
            return None  # it has ended, and the browser does not know yet


def _cross_site_error() -> Denied:
    return Denied(
        "nothing says that a page of this host asks for this",
        code="http.cross_site",
        hint="programs send a key: Authorization: Bearer KEY",
    )

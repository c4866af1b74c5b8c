"""The ASGI application: authenticates the caller, finds the route, and turns every error into a problem body."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial

import orjson
from msgspec import Struct, field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from paddock.core.clock import Clock, Random
from paddock.core.error_formats import problem_details
from paddock.core.errors import PaddockError
from paddock.core.ids import new_id
from paddock.host.host import Host
from paddock.web.routing.errors import ErrorMiddleware, ErrorPage
from paddock.web.routing.route import API_PREFIX, PUBLIC
from paddock.web.routing.router import Route, Router, serve_route
from paddock.web.security.allowed_hosts import NO_HOSTS, AllowedHosts
from paddock.web.security.authenticate import (
    ApiKeyAuthenticator,
    Authenticator,
    ChallengeParameters,
    TokenAuthenticator,
    unauthenticated_error,
)
from paddock.web.security.cookies import SessionAuthenticator
from paddock.web.security.headers import HostOriginMiddleware, add_security_headers

_SLASH_ALLOWED_AFTER = re.compile(rf"(?<!/plugins)/(?:call|prompts)/|^{API_PREFIX}/secrets/".encode())


class Shutdown(Struct, frozen=True):
    """How far the daemon's shutdown has come.

    Attributes:
        draining: Set once no new work is accepted.
        closing: Set once open streams must end.
    """

    draining: asyncio.Event = field(default_factory=asyncio.Event)
    closing: asyncio.Event = field(default_factory=asyncio.Event)


class WebApp:
    """The ASGI application: error bodies > Host and Origin checks > authentication > the router.

    It knows no route by itself; the daemon passes in those of the API, the console and the identity provider.

    Args:
        host: Looks up API keys and console sessions.
        clock, random: For the ids of errors.
        routes: Every route, API and pages alike.
        mounts: Whole applications by path, as in `/mcp`. They are reached with a credential only and find the `Caller`
            in `scope["state"]["caller"]`.
        authenticators: Kinds of bearer tokens that are accepted beside API keys.
        challenge: Parameters of the WWW-Authenticate header beside the realm.
        allowed_hosts: Host names that this daemon answers to over TCP, and origins that may call it.
        error_page: Renders an error for a browser.
    """

    def __init__(
        self,
        host: Host,
        clock: Clock,
        random: Random,
        routes: Sequence[Route],
        *,
        mounts: Mapping[str, ASGIApp] | None = None,
        authenticators: Sequence[TokenAuthenticator] = (),
        challenge: ChallengeParameters | None = None,
        allowed_hosts: AllowedHosts = NO_HOSTS,
        error_page: ErrorPage | None = None,
    ) -> None:
        sessions = SessionAuthenticator(host, allowed_hosts)
        credentials = host.identity.credentials
        authenticator = Authenticator(
            (ApiKeyAuthenticator(host), *authenticators),
            os.geteuid(),
            lambda: credentials.revision,
            sessions.authenticate,
        )
        self._allowed_hosts = allowed_hosts
        self._new_error_id = partial(new_id, "err", clock, random)
        authenticated = AuthenticationMiddleware(authenticator, routes, mounts or {})
        checked = HostOriginMiddleware(authenticated, allowed_hosts)
        self._app = ErrorMiddleware(checked, self._new_error_id, challenge, error_page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, add_security_headers(scope, send, self._allowed_hosts))

    def render_error(self, error: PaddockError) -> bytes:
        """The problem body of a request that the server refuses before it reaches the application."""
        return orjson.dumps(problem_details(error, self._new_error_id()))


class AuthenticationMiddleware:
    """Authenticates the caller and dispatches to a mount or a route.

    Requests without a credential are matched against the public routes only.
    """

    def __init__(self, authenticator: Authenticator, routes: Sequence[Route], mounts: Mapping[str, ASGIApp]) -> None:
        self._authenticator = authenticator
        self._router = Router(routes)
        self._public_router = Router(route for route in routes if route.access is PUBLIC)
        self._mounts = tuple(mounts.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        caller = state["caller"] = await self._authenticator.authenticate(scope)
        state["proof"] = self._authenticator  # for long streams; see `revalidate_response`
        if _is_ambiguous_path(scope):
            raise HTTPException(404)
        if caller is None:
            await serve_route(self._find_public_route(scope), scope, receive, send)
            return
        path = scope["path"]
        for mount_path, app in self._mounts:
            if path == mount_path or path.startswith(f"{mount_path}/"):
                await app(scope, receive, send)
                return
        await serve_route(self._router.find_route(scope), scope, receive, send)

    def _find_public_route(self, scope: Scope) -> Route:
        try:
            return self._public_router.find_route(scope)
        except HTTPException as error:
            raise (unauthenticated_error() if error.status_code == 404 else error) from None


def _is_ambiguous_path(scope: Scope) -> bool:
    """Return whether a path changes its meaning when decoded: an encoded slash in a name, or non-printable characters.

    Names of callables, prompts and secrets may contain a slash, so an encoded slash is accepted behind `/call/`,
    `/prompts/` and the API's `/secrets/`.
    """
    if b"%" not in scope["raw_path"]:
        return not scope["path"].isprintable()
    before = _SLASH_ALLOWED_AFTER.split(bytes(scope["raw_path"]), maxsplit=1)[0]
    return b"%2f" in before.lower() or not scope["path"].isprintable()

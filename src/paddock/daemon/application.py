"""Composes the application that the daemon serves: API, console, OIDC routes and MCP server.

A command without a daemon uses the API alone, in its own process, and must not wait for the imports of the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from paddock.api.routes import api_routes
from paddock.core.call import CallContext
from paddock.core.clock import Clock, Random
from paddock.host.host import Host
from paddock.web.app import Shutdown, WebApp
from paddock.web.daemon_address import find_console
from paddock.web.request_context import call_context
from paddock.web.security.allowed_hosts import allowed_hosts_from
from paddock.web.security.authenticate import unauthenticated_error

if TYPE_CHECKING:
    from paddock.mcp_server.server import McpServer


class Application(Struct, frozen=True):
    """The ASGI application with the parts that the daemon shuts down in order."""

    web: WebApp
    mcp: McpServer
    shutdown: Shutdown = field(default_factory=Shutdown)


def build_application(host: Host, clock: Clock, random: Random) -> Application:
    """Compose the application from the host's settings.

    Raises:
        OperatorError: the settings of the identity provider contradict each other.
    """
    from paddock.console.message_pages import ProblemPage, notice_page
    from paddock.console.routes import console_pages
    from paddock.mcp_server.server import McpServer

    shutdown = Shutdown()
    find_daemon_console = partial(find_console, host.directories, host.settings.http, has_daemon=True)
    mcp = McpServer(host, McpRequestAuthenticator(host), clock, find_daemon_console)
    oidc = None
    if host.settings.oidc.issuer is not None:
        from paddock.web.oidc.setup import build_oidc  # imported lazily: most hosts have no provider and start faster

        oidc = build_oidc(host, clock, random, notice_page)
    api = api_routes(host, shutdown, notice_page, oidc.endpoints if oidc else ())
    web = WebApp(
        host,
        clock,
        random,
        (*api, *console_pages(host, shutdown.closing)),
        mounts={"/mcp": mcp},
        authenticators=oidc.authenticators if oidc else (),
        challenge=oidc.challenge_parameters if oidc else None,
        allowed_hosts=allowed_hosts_from(host.settings.http),
        error_page=ProblemPage(oidc.sign_in_path if oidc else ""),
    )
    return Application(web, mcp, shutdown)


def build_api(host: Host, clock: Clock, random: Random) -> WebApp:
    """Compose the API alone, with the same authentication and the same errors."""
    return WebApp(host, clock, random, api_routes(host, Shutdown(), _notice_page))


def _notice_page(title: str, message: str, *, button: str = "", home: str = "", status: int = 200) -> Response:
    from paddock.console.message_pages import notice_page

    return notice_page(title, message, button=button, home=home, status=status)


class McpRequestAuthenticator:
    """Provides the MCP server with the caller that the web application authenticated."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def context_for(self, scope: Scope) -> CallContext:
        return await call_context(self._host, Request(scope))

    async def reauthenticate(self, scope: Scope) -> CallContext:
        state = scope["state"]
        caller = await state["proof"].authenticate(scope)
        if caller is None:
            raise unauthenticated_error()
        return await call_context(self._host, Request({**scope, "state": {**state, "caller": caller}}))

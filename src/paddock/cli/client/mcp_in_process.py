"""An MCP server on stdio without a daemon: a host is opened for as long as the client stays."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from starlette.types import Scope

from paddock.cli.client.unix_socket_transport import find_daemon
from paddock.config.directories import user_name
from paddock.config.project_file import working_directory
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock
from paddock.core.errors import PaddockError
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.wiring.open_host import Config, open_host
from paddock.mcp_server.exchange import ContextProvider
from paddock.mcp_server.server import McpServer
from paddock.mcp_server.stdio_transport import StdioTransport, open_stdio_transport
from paddock.web.daemon_address import ConsoleAddress, find_console, socket_path


@asynccontextmanager
async def open_in_process_transport(
    acting_as: str | None, tenant: str, write: Callable[[bytes], None]
) -> AsyncGenerator[StdioTransport, None]:
    """Open a host and a stdio transport on it for as long as the block runs.

    `acting_as` names the principal, `tenant` the tenant.

    Raises:
        PaddockError: the host cannot be opened, or there is no such principal.
    """
    config = Config(role="command", start="enabled", cwd=working_directory())
    async with open_host(config) as host:
        tenant_name = await host.tenant(tenant)
        context = _context_provider(host, acting_as, tenant_name)
        await context()  # fails now if there is no such principal
        server = McpServer(host, _NoHttpRequests(), SystemClock(), partial(_find_console, host))
        try:
            async with open_stdio_transport(server, tenant_name, context, write) as transport:
                yield transport
        finally:
            server.close()


def _context_provider(host: Host, acting_as: str | None, tenant: Tenant) -> ContextProvider:
    operator = user_name(os.geteuid())

    async def current_context() -> CallContext:
        if acting_as is None:
            return host.operator_context(operator, tenant)
        return host.call_context(await host.principal(acting_as, tenant), operator=operator)

    return current_context


def _find_console(host: Host) -> ConsoleAddress:
    """Look for a daemon that was started meanwhile: the person is told to start one when a call waits for them."""
    directories = host.directories
    try:
        has_daemon = find_daemon(socket_path(directories)) is not None
    except PaddockError:
        has_daemon = False
    return find_console(directories, host.settings.http, has_daemon=has_daemon)


class _NoHttpRequests:
    """The authenticator of HTTP requests, which do not occur on stdio."""

    async def context_for(self, scope: Scope) -> CallContext:
        del scope
        raise AssertionError("nothing comes over HTTP here")

    reauthenticate = context_for

"""One MCP client on lines without a daemon: a host is opened for as long as the client stays."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from starlette.types import Scope

from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock
from paddock.core.ids import Tenant
from paddock.gateway.exchange import ContextNow
from paddock.gateway.gateway import Gateway
from paddock.gateway.lines import Lines, open_lines
from paddock.host.host import Host
from paddock.host.opening import Config, open_host


@asynccontextmanager
async def alone(acting_as: str | None, tenant: str, write: Callable[[bytes], None]) -> AsyncGenerator[Lines, None]:
    """A host and a client of it for as long as the block runs. `acting_as` is in whose name, and `tenant` where.

    Raises:
        PaddockError: the host cannot be opened, or nobody has that name.
    """
    config = Config(role="command", start="enabled", cwd=working_directory())
    async with open_host(config) as host:
        whose = await host.tenant(tenant)
        context = _context(host, acting_as, whose)
        await context()  # where nobody has that name, it does not begin
        gateway = Gateway(host, _Nobody(), SystemClock())
        try:
            async with open_lines(gateway, whose, context, write) as lines:
                yield lines
        finally:
            gateway.close()


def _context(host: Host, acting_as: str | None, tenant: Tenant) -> ContextNow:
    operator = user_name(os.geteuid())

    async def now() -> CallContext:
        if acting_as is None:
            return host.operator_context(operator, tenant)
        return host.context_of(await host.principal(acting_as, tenant), operator=operator)

    return now


class _Nobody:
    """Whoever makes requests over HTTP, where none come."""

    async def context_of(self, scope: Scope) -> CallContext:
        del scope
        raise AssertionError("nothing comes over HTTP here")

    proven_again = context_of

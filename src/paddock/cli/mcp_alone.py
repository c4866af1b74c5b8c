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
        context = await _context(host, acting_as, tenant)
        gateway = Gateway(host, _Nobody(), SystemClock())
        try:
            async with open_lines(gateway, context, write) as lines:
                yield lines
        finally:
            gateway.close()


async def _context(host: Host, acting_as: str | None, tenant: str) -> Callable[[], CallContext]:
    operator, whose = user_name(os.geteuid()), await host.tenant(tenant)
    if acting_as is None:
        return lambda: host.operator_context(operator, whose)
    principal = await host.principal(acting_as, whose)
    return lambda: host.context_of(principal, operator=operator)


class _Nobody:
    """Whoever makes requests over HTTP, where none come."""

    async def context_of(self, scope: Scope) -> CallContext:
        del scope
        raise AssertionError("nothing comes over HTTP here")

    proven_again = context_of

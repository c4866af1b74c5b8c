"""Reading one thing without a daemon: a host is opened, starts the one plugin, and is closed again."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from paddock.cli.event_loop import run
from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.call import CallContext
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.host.opening import Config, open_host

Read: TypeAlias = Callable[[Host, CallContext], Awaitable[dict[str, Any]]]


def read_once(read: Read, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
    """What is read, for the person who types, in a tenant.

    Raises:
        PaddockError: it cannot be.
    """

    async def reading() -> dict[str, Any]:
        async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
            return await read(host, host.operator_context(user_name(os.geteuid()), await host.tenant(tenant)))

    return run(reading())

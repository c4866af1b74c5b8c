"""Answers of a person without a daemon: a host is opened, the call that waited is made, and it is closed again."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from paddock.cli.call_events import EventLine
from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.call import Principal
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.host import Host
from paddock.host.opening import Config, open_host
from paddock.http.api.approvals import remembered

T = TypeVar("T")


async def with_host(work: Callable[[Host, Principal], Awaitable[T]], tenant: str = DEFAULT_TENANT) -> T:
    """The work's result, with a host that is open for it and whoever sits at this machine."""
    async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
        return await work(host, await _at_this_machine(host, tenant))


async def answer_once(
    approval_id: str, verdict: str, body: dict[str, Any], tenant: str = DEFAULT_TENANT
) -> tuple[dict[str, Any], Any]:
    """The request after the answer, and the call as data where it was made.

    Raises:
        PaddockError: the answer was not taken.
    """
    with EventLine() as shown:
        async with open_host(Config(role="command", start="nothing", cwd=working_directory())) as host:
            by = await _at_this_machine(host, tenant)
            if verdict == "deny":
                return await host.approving.deny(approval_id, by, comment=body["comment"]), None
            answered = await host.approving.approve(
                approval_id, by, comment=body["comment"], remember=remembered(body), payload=body.get("params")
            )
            live = host.calls.find(answered["call_id"], by.tenant)
            if live.held is not None:  # more people are needed
                return answered, None
            async for event in live.events():
                if event.kind == "event":
                    shown.show(event.data)
            return await host.approving.find(by.tenant, answered["id"]), live.to_json()


async def _at_this_machine(host: Host, tenant: str) -> Principal:
    return host.operator_context(user_name(os.geteuid()), await host.tenant(tenant)).principal

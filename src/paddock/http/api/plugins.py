"""`/plugins`: what is installed, how it is doing, and the switches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.http.acting import context_of, sees_all, tenant_of
from paddock.http.auth import caller_of
from paddock.http.checking import body_of
from paddock.http.endpoint import (
    EVENTS,
    HOST,
    OPERATOR,
    WHOSE,
    Also,
    Endpoint,
    answer,
    count_of,
    flag,
    named,
    number,
    yes_or_no,
)
from paddock.http.granted import granted_in
from paddock.http.live import Told, event_stream
from paddock.http.schemas.building import ref
from paddock.http.schemas.plugins import ENABLE

MOST_LINES = 10_000
_LINES = 50


class PluginRoutes:
    """Looking at plugins and switching them."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/plugins",
                self.list_plugins,
                "List installed plugins",
                "Every plugin with `state`, its installation's, and `runtime`, its process's. Whoever is no operator is"
                " told of those that they may call something of, without how they are doing.",
                query=WHOSE,
                gives=ref("Plugins"),
            ),
            Endpoint(
                "GET",
                "/plugins/{name}",
                self.show_plugin,
                "Show one plugin",
                "Versions, trust, capabilities, callables, and `runtime`: how its process is doing. Whoever is no"
                " operator is told what it is, and `callables`: those that they may call.",
                query=WHOSE,
                gives={"anyOf": [ref("Plugin"), ref("OfferedPlugin")]},
                fails=(502,),
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/enable",
                self.enable_plugin,
                "Enable a plugin and start it",
                "How its process is doing once it runs or is known not to: the fields of `runtime`. 403 with the"
                " `capabilities` where the plugin asks for more than the tenant granted.",
                query=WHOSE
                | {"anew": yes_or_no("1: in a new process; one that runs is ended first, after the calls under way.")},
                body="`grant`: capabilities that somebody said yes to, each as a text.",
                takes=ENABLE,
                gives=ref("Started"),
                fails=(409, 429, 502, 504),
                who=OPERATOR,
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/disable",
                self.disable_plugin,
                "Disable a plugin and stop it",
                "`state`, its installation's, once its process is gone.",
                query=WHOSE,
                gives=ref("Disabled"),
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/plugins/{name}/logs",
                self.read_logs,
                "Read what a plugin wrote to its log",
                "The last lines, newest last; with `follow`, server-sent events that go on.",
                query=WHOSE
                | {
                    "lines": count_of(f"How many lines ({_LINES}).", _LINES, MOST_LINES),
                    "follow": yes_or_no("1: go on with new lines as server-sent events."),
                },
                gives=ref("LogLines"),
                also=(Also(200, EVENTS, "With `follow`: the last lines and every new one, each an event `line`."),),
                who=OPERATOR,
            ),
            Endpoint(
                "GET",
                "/plugins/{name}/notifications",
                self.follow_notifications,
                "Follow a plugin's notifications",
                "Server-sent events, one a notification.",
                query=WHOSE,
                media=EVENTS,
                who=OPERATOR,
            ),
        ]

    async def list_plugins(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        if sees_all(context.principal):
            return answer({"plugins": await self._host.plugins(context.tenant)})
        return answer({"plugins": await self._host.offers.plugins(context)})

    async def show_plugin(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        if sees_all(context.principal):
            shown = await self._host.plugin(named(request), context.tenant)
            if not HOST.lets(caller_of(request)):  # what lies where here is no business of other tenants
                shown = shown | {"source": shown["source"].partition(" /")[0]}
            return answer(shown)
        return answer(await self._host.offers.plugin(named(request), context))

    async def enable_plugin(self, request: Request) -> Response:
        body = body_of(request)
        enabled = await self._host.enable(
            named(request),
            tenant=await tenant_of(self._host, request),
            acknowledged=granted_in(body),
            anew=flag(request, "anew"),
            by=caller_of(request).principal.id,
        )
        return answer(enabled)

    async def disable_plugin(self, request: Request) -> Response:
        tenant = await tenant_of(self._host, request)
        return answer(await self._host.disable(named(request), tenant, by=caller_of(request).principal.id))

    async def read_logs(self, request: Request) -> Response:
        name, tenant = named(request), await tenant_of(self._host, request)
        count = number(request, "lines", _LINES)
        lines = await self._host.logs(name, tenant=tenant, lines=count)  # not found is told before a stream begins
        if flag(request, "follow"):
            return event_stream(self._log_lines(name, tenant, count), self._closing)
        return answer({"name": name, "lines": lines})

    async def _log_lines(self, name: str, tenant: Tenant, count: int) -> AsyncGenerator[Told, None]:
        # Followed before they are read, so that no line is missed between the two; one may be in both.
        async with aclosing(await self._host.follow_logs(name, tenant)) as following:
            kept = await self._host.logs(name, tenant=tenant, lines=count)
            following.skip_past(_among(kept))
            for line in kept:
                yield Told(line, "line")
            del kept
            async for line in following:
                yield Told(line, "line")

    async def follow_notifications(self, request: Request) -> Response:
        name, tenant = named(request), await tenant_of(self._host, request)
        await self._host.plugin(name, tenant)  # not found is told before the stream begins
        return event_stream(self._notifications(name, tenant), self._closing)

    async def _notifications(self, name: str, tenant: Tenant) -> AsyncGenerator[Told, None]:
        async with aclosing(await self._host.follow_notifications(name, tenant)) as following:
            yield Told({"plugin": name}, "following")  # from here on nothing is missed
            async for one in following:
                yield Told(one, "notification")


def _among(lines: list[dict[str, Any]]) -> Callable[[dict[str, Any]], bool]:
    """Whether a line is one of these."""
    known = {(line["at"], line["line"]) for line in lines}
    return lambda line: (line["at"], line["line"]) in known

"""Plugins: all of them, and each with what it may do, how it is doing, and its switches."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import NeedsConsent
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.auth import caller_of
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done, operates, page
from paddock.http.console.plugin_words import state_of, told_of
from paddock.http.endpoint import OPERATOR, named
from paddock.http.granted import granted_in

_LINES = 50


class PluginPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins", self.listed),
            Page("GET", "/plugins/{name}", self.shown),
            Page("GET", "/plugins/{name}/logs", self.logs, OPERATOR),
            Page("POST", "/plugins/{name}/enable", self.enable, OPERATOR),
            Page("POST", "/plugins/{name}/disable", self.disable, OPERATOR),
            Page("POST", "/plugins/{name}/restart", self.restart, OPERATOR),
        ]

    async def listed(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        sees = operates(caller_of(request))
        plugins = await (self._host.plugins(context.tenant) if sees else self._host.offers.plugins(context))
        return page(request, "plugins.html", {"plugins": [told_of(one) for one in plugins]})

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(self, request: Request, *, asks: Any = (), status: int = 200) -> Response:
        context, name = await context_of(self._host, request), named(request)
        if not operates(caller_of(request)):
            offered = await self._host.offers.plugin(name, context)
            return page(request, "plugin_offered.html", {"plugin": offered})
        plugin = await self._host.plugin(name, context.tenant)
        words, mood = state_of(plugin["state"], plugin["runtime"] or {})
        lines = await self._host.logs(name, tenant=context.tenant, lines=_LINES)
        values = {"plugin": plugin, "words": words, "mood": mood, "runtime": plugin["runtime"] or {}, "lines": lines}
        return page(request, "plugin.html", {**values, "asks": asks}, status)

    async def logs(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        lines = await self._host.logs(name, tenant=context.tenant, lines=1_000)
        return page(request, "plugin_logs.html", {"name": name, "lines": lines})

    async def enable(self, request: Request) -> Response:
        return await self._started(request, "enabled", anew=False)

    async def restart(self, request: Request) -> Response:
        return await self._started(request, "restarted", anew=True)

    async def _started(self, request: Request, said: str, *, anew: bool) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        try:
            await self._host.enable(
                name,
                tenant=context.tenant,
                acknowledged=granted_in({"grant": sent.texts.get("grant", [])}),
                anew=anew,
                by=context.principal.id,
            )
        except NeedsConsent as needed:
            return await self._page(request, asks=needed.details.get("capabilities", ()), status=403)
        return done(_at(name), said)

    async def disable(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        await self._host.disable(name, context.tenant, by=context.principal.id)
        return done(_at(name), "disabled")


def _at(name: str) -> str:
    return f"/plugins/{quote(name, safe='')}"

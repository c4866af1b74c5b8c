"""Plugins: all of them, and each with what it may do, how it is doing, its switches, and what waits for a yes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import CallerError, Invalid, NeedsConsent, PaddockError
from paddock.core.outward import http_status
from paddock.host.host import Host
from paddock.host.log_records import line_of
from paddock.http.acting import context_of
from paddock.http.auth import caller_of
from paddock.http.console.charts import calls_chart, size, times_chart, took
from paddock.http.console.form_body import form_of
from paddock.http.console.page import Page, done, operates, page, plugin_page
from paddock.http.console.plugin_words import matches, state_of, told_of, trust_of
from paddock.http.endpoint import HOST, LONGEST_NAME, OPERATOR, named
from paddock.http.granted import granted_in
from paddock.http.json_text import read_value
from paddock.manifest.capability import describe

_LAST_WORDS = 10  # lines of a plugin that does not run
_MANY = 12  # plugins that somebody finds by looking
_SETTLED = ("accepted", "gone")  # what nobody has to look at


class PluginPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins", self.listed),
            Page("GET", "/plugins/{name}", self.shown),
            Page("POST", "/plugins/{name}/enable", self.enable, OPERATOR),
            Page("POST", "/plugins/{name}/disable", self.disable, OPERATOR),
            Page("POST", "/plugins/{name}/restart", self.restart, OPERATOR),
            Page("POST", "/plugins/{name}/definitions/accept", self.accept, OPERATOR),
        ]

    async def listed(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        sees = operates(caller_of(request))
        plugins = await (self._host.plugins(context.tenant) if sees else self._host.offers.plugins(context))
        asked = request.query_params.get("find", "").strip()[:LONGEST_NAME]
        found = [one for one in map(told_of, plugins) if matches(one, asked)]
        values = {"plugins": found, "behaving": self._host.activation.behaving(context)}
        return page(request, "plugins.html", {**values, "find": asked, "many": len(plugins) > _MANY})

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(
        self, request: Request, *, asks: Iterable[str] = (), problem: PaddockError | None = None, status: int = 200
    ) -> Response:
        context, name, caller = await context_of(self._host, request), named(request), caller_of(request)
        if not operates(caller):
            offered = await self._host.offers.plugin(name, context)
            return page(request, "plugin_offered.html", {"plugin": offered})
        plugin = await self._host.plugin(name, context.tenant)
        runtime: dict[str, Any] = plugin["runtime"] or {}
        words, mood = state_of(plugin["state"], runtime, given_up=plugin["given_up"])
        values: dict[str, Any] = {"plugin": plugin, "runtime": runtime, "words": words, "mood": mood}
        values["trust"] = trust_of(plugin["signature"])
        # What lies where on this machine is no business of other tenants.
        values["source"] = plugin["source"] if HOST.lets(caller) else plugin["source"].partition(" /")[0]
        values["asks"] = [(str(one), describe(one)) for one in granted_in({"grant": list(asks)})]
        activity = await self._host.activity.of(plugin["name"], context.tenant)
        memory = await self._host.activity.memory(runtime.get("pid"))
        values |= {"activity": activity, "charts": (calls_chart(activity), times_chart(activity))}
        values["numbers"] = {"median": took(activity.median_ms), "slow": took(activity.slow_ms), "memory": size(memory)}
        values |= {"lines": [], "unset": (), "may_uninstall": HOST.lets(caller)}
        if runtime.get("reason") or problem is not None:
            values["unset"] = (await self._host.configuring.shown(name, context.tenant)).missing
        if runtime.get("reason"):
            kept = await self._host.logs(name, tenant=context.tenant, lines=_LAST_WORDS)
            values["lines"] = [line_of(one) for one in kept]
        values["definitions"] = []
        if any(one["standing"] not in _SETTLED for one in plugin["definitions"]):
            shown = await self._host.definitions.shown(name, context.tenant)
            values["definitions"] = [one for one in shown if one["standing"] not in _SETTLED]
        return page(request, "plugin.html", {**values, "problem": problem}, status)

    async def enable(self, request: Request) -> Response:
        return await self._started(request, "enabled", anew=False)

    async def restart(self, request: Request) -> Response:
        return await self._started(request, "restarted", anew=True)

    async def _started(self, request: Request, said: str, *, anew: bool) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        try:
            started = await self._host.enable(
                name,
                tenant=context.tenant,
                acknowledged=granted_in({"grant": sent.texts.get("grant", [])}),
                anew=anew,
                by=context.principal.id,
            )
        except NeedsConsent as needed:
            return await self._page(request, asks=needed.details.get("capabilities", ()), status=403)
        except PaddockError as refused:
            return await self._page(request, problem=refused, status=http_status(refused))
        # Of one that does not run the page itself says so, and why.
        return RedirectResponse(plugin_page(name), 303) if started["reason"] else done(plugin_page(name), said)

    async def disable(self, request: Request) -> Response:
        context, name = await context_of(self._host, request), named(request)
        await self._host.disable(name, context.tenant, by=context.principal.id)
        return done(plugin_page(name), "disabled")

    async def accept(self, request: Request) -> Response:
        """Take what a server says now, each as it was shown."""
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        try:
            for kind, what, shown_hash in _definitions_in(sent.texts.get("definition", ())):
                await self._host.definitions.accept(name, kind, what, shown_hash, context.principal.id, context.tenant)
        except PaddockError as refused:
            return await self._page(request, problem=refused, status=http_status(refused))
        return done(plugin_page(name), "accepted")


def _definitions_in(sent: Iterable[str]) -> list[tuple[str, str, str]]:
    """What a form names of a server's definitions: of what kind, its name, and the hash of what was shown.

    Raises:
        CallerError: it is none of our forms.
    """
    found: list[tuple[str, str, str]] = []
    for one in sent:
        try:
            kind, name, shown_hash = read_value(one.encode())
        except (Invalid, ValueError, TypeError):
            raise CallerError("this names no definition", code="http.not_a_form") from None
        found.append((str(kind), str(name), str(shown_hash)))
    return found

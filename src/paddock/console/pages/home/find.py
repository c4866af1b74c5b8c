"""The search of the console: pages, plugins, tools, calls and people that a caller may see, as a page and in Ctrl-K."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, html_response, is_operator, plugin_path, render_page
from paddock.console.places import PERSONAL, PLACES, visible_sections
from paddock.console.search import SearchGroup, SearchHit, SearchQuery
from paddock.console.templates import render
from paddock.console.text.call_text import call_status_text
from paddock.console.text.plugin_text import summarize_plugin
from paddock.console.text.principal_text import principal_name
from paddock.core.call import CallContext
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.security.authenticate import Caller, caller_of

_MAX_TOOLS_DECIDED: Final = 40  # the policy decides about each tool that is shown to a member
_MAX_CALLS_SEARCHED: Final = 500


class FindPages:
    """Searches."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/find", self.show),
            Page("GET", "/find/results", self.show_results),
            Page("GET", "/keys", self.show_keys),
        ]

    async def show_keys(self, request: Request) -> Response:
        """List the keys of the console."""
        return render_page(request, "home/keys.html", {})

    async def show(self, request: Request) -> Response:
        return render_page(request, "home/find.html", await self._find(request))

    async def show_results(self, request: Request) -> Response:
        """Show the results alone, for the dialog of Ctrl-K."""
        return html_response(request, render("home/find_results.html", await self._find(request)))

    async def _find(self, request: Request) -> Mapping[str, Any]:
        query, caller = SearchQuery.parse(request.query_params.get("q", "")), caller_of(request)
        context = await call_context(self._host, request)
        groups = [query.best("Pages", _pages(caller))]
        if query.terms:
            groups += [
                await self._plugins(query, context, caller),
                await self._tools(query, context, caller),
                await self._calls(query, context),
            ]
            if is_operator(caller):
                groups.append(await self._people(query, context))
        if (named := query.named_by_id()) is not None:
            groups.insert(0, SearchGroup("By id", (named,), more=False))
        # Enter opens the first hit: "count" means the plugin "slow-count" before the page "Accounts".
        return {"q": query.text, "groups": sorted((one for one in groups if one.hits), key=lambda one: one.rank)}

    async def _plugins(self, query: SearchQuery, context: CallContext, caller: Caller) -> SearchGroup:
        listed = await (
            self._host.plugins.inventory.list_all(context.tenant)
            if is_operator(caller)
            else self._host.calls.permitted_plugins.plugins(context)
        )
        summaries = map(summarize_plugin, listed)
        hits = (SearchHit(one.name, one.description or one.words, plugin_path(one.name)) for one in summaries)
        return query.best("Plugins", hits)

    async def _tools(self, query: SearchQuery, context: CallContext, caller: Caller) -> SearchGroup:
        catalogue = self._host.calls.callable_access.catalogue(context.tenant)
        ranked = [
            (rank, target)
            for entry in catalogue.entries()
            for target in catalogue.targets_of(entry.manifest.name)
            if (rank := query.rank(f"{entry.manifest.name}.{target.spec.name}", target.spec.description)) is not None
        ]
        ranked.sort(key=lambda one: (one[0], one[1].manifest.name, one[1].spec.name))
        targets = [target for _, target in ranked[:_MAX_TOOLS_DECIDED]]
        if not is_operator(caller):
            targets = [one.target for one in await self._host.calls.callable_access.permitted(context, targets)]
        hits = [
            SearchHit(
                f"{target.manifest.name}.{target.spec.name}",
                target.spec.description,
                plugin_path(target.manifest.name, f"run/{quote(target.spec.name)}"),
            )
            for target in targets
        ]
        return query.best("Tools", hits)

    async def _calls(self, query: SearchQuery, context: CallContext) -> SearchGroup:
        names = await self._host.identity.names.read(context.tenant)
        hits = (
            SearchHit(
                f"{call['plugin']}.{call['callable']}",
                " · ".join((call_status_text(call["status"], call.get("error_code", "")), principal_name(who, names))),
                f"/calls/{quote(call['call_id'], safe='')}",
                at=call["started_at"],
                also=call["call_id"],
            )
            for call, who in await self._host.calls.history.recent(context.principal, _MAX_CALLS_SEARCHED)
        )
        return query.best("Recent calls", hits)

    async def _people(self, query: SearchQuery, context: CallContext) -> SearchGroup:
        people, _ = await self._host.identity.people.list_all(context.tenant)
        hits = (
            SearchHit(person.name, person.display_name, f"/settings/people/{quote(person.name, safe='')}")
            for person in people
        )
        return query.best("People", hits)


def _pages(caller: Caller) -> Iterator[SearchHit]:
    for place in (*PLACES, PERSONAL):
        for section in visible_sections(place, caller):
            yield SearchHit(section.label, "" if section.label == place.label else place.label, section.path)

"""The map of a host: who calls which plugins, and what those reach."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import Page, page_names, render_page
from paddock.console.pages.plugins.map_layout import KINDS, MAX_PLUGINS_DRAWN, draw, map_rows
from paddock.console.text.principal_text import principal_name
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import MAX_NAME_CHARS, OPERATOR

MAP_PATH: Final = "/map"
"""Not below `/plugins`, where it would hide the page of a plugin of that name."""
_MAX_CELL_TARGETS: Final = 4


class MapPages:
    """Draws the map."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("GET", MAP_PATH, self.show, OPERATOR)]

    async def show(self, request: Request) -> Response:
        tenant = (await call_context(self._host, request)).tenant
        search = request.query_params.get("find", "").strip()[:MAX_NAME_CHARS]
        every_plugin = "all" in request.query_params
        reach, calls = await asyncio.gather(
            self._host.plugins.inventory.reach(tenant),
            self._host.plugins.activity.callers(tenant),
        )
        names = {one.principal: principal_name(one.principal, page_names(request.scope)) for one in calls}
        principals = {name: principal for principal, name in names.items()}
        rows = map_rows(reach, calls, names)
        terms = search.lower().split()
        found = [row for row in rows if all(term in row.plugin.lower() for term in terms)]
        values = {
            "rows": found,
            "principals": principals,
            "picture": draw(found, every_plugin=every_plugin),
            "kinds": [kind for kind, _ in KINDS],
            "find": search,
            "total": len(rows),
            "collapses": len(found) > MAX_PLUGINS_DRAWN,
            "every_plugin": every_plugin,
            "most": _MAX_CELL_TARGETS,
        }
        return render_page(request, "plugins/plugin_map.html", values)

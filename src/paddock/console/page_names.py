"""What people and API keys are called, read once for each page: the menu and every mention of a person need it."""

from __future__ import annotations

import logging

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.console.page import NAMES_STATE_KEY, Page
from paddock.core.errors import PaddockError
from paddock.host.host import Host
from paddock.web.request_context import request_tenant
from paddock.web.routing.route import PUBLIC

_log = logging.getLogger("paddock.console")


class PageNames:
    """Reads the names of a page’s tenant."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def with_names(self, page: Page) -> Page:
        """Wrap a page so that it names people; see `page_names`."""
        if page.access is PUBLIC or page.path.endswith("/live"):
            return page

        async def show_with_names(request: Request) -> Response:
            try:
                tenant = await request_tenant(self._host, request)
                request.scope["state"][NAMES_STATE_KEY] = await self._host.identity.names.read(tenant)
            except PaddockError as error:  # the page reports it, or shows principals
                _log.warning("the names of people could not be read: %s", error.message)
            return await page.show(request)

        return replace(page, show=show_with_names)

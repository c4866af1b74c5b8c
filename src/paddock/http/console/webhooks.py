"""Webhooks: where a tenant's events are sent, and whether they arrive."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.page import Page
from paddock.http.console.settings_page import settings_page
from paddock.http.endpoint import OPERATOR


class WebhookPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [Page("GET", "/settings/webhooks", self.listed, OPERATOR)]

    async def listed(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        return settings_page(request, "webhooks.html", {"webhooks": await self._host.webhooks.all(context.tenant)})

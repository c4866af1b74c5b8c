"""Verifying the ledger: a button, how far it is, and what the verdict means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.core.errors import HostError
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.verifying import Verification
from paddock.http.acting import context_of
from paddock.http.console.live_part import Over, Part, part
from paddock.http.console.page import Page, page
from paddock.http.console.verify_words import told_of
from paddock.http.endpoint import OPERATOR
from paddock.http.live import event_stream

_PATH = "/ledger/verify"


class VerifyPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def rows(self) -> list[Page]:
        return [
            Page("GET", _PATH, self.shown, OPERATOR),
            Page("POST", _PATH, self.begin, OPERATOR),
            Page("GET", f"{_PATH}/progress", self.progress, OPERATOR),
        ]

    async def shown(self, request: Request) -> Response:
        tenant = (await context_of(self._host, request)).tenant
        verification = self._host.verifying.of(tenant)
        try:
            checkpoint, unreadable = await self._host.verifying.last_checkpoint(tenant), ""
        except (HostError, OSError) as error:
            checkpoint, unreadable = None, str(error)
        values = _values(verification) | {"checkpoint": checkpoint, "unreadable": unreadable}
        return page(request, "verify.html", values)

    async def begin(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        self._host.verifying.begin(context.tenant, context.principal.id)
        return RedirectResponse(_PATH, 303)

    async def progress(self, request: Request) -> Response:
        tenant = (await context_of(self._host, request)).tenant
        return event_stream(self._changes(tenant), self._closing)

    async def _changes(self, tenant: Tenant) -> AsyncGenerator[Part | Over, None]:
        async with aclosing(self._host.verifying.changes(tenant)) as changes:
            async for verification in changes:
                yield part("verify_state.html", _values(verification))
        yield Over()


def _values(verification: Verification | None) -> dict[str, Any]:
    finding = verification.finding if verification else None
    return {
        "verification": verification,
        "over": verification is None or verification.over,
        "told": None if finding is None else told_of(finding),
    }

"""What a plugin needs on this machine: which of it is set, setting it, and forgetting it. No secret is ever shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.outward import http_status
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.configuration_form import (
    SHOWN,
    Filled,
    beside,
    change_in,
    filled_form,
    shape_of_fields,
    values_of,
)
from paddock.http.console.form_body import form_of
from paddock.http.console.forms.rows import goes_on, with_changed_rows
from paddock.http.console.page import Page, done, page, plugin_page
from paddock.http.endpoint import OPERATOR, named


class ConfigurationPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/configuration", self.shown, OPERATOR),
            Page("POST", "/plugins/{name}/configuration", self.change, OPERATOR),
            Page("POST", "/plugins/{name}/configuration/forget", self.forget, OPERATOR),
        ]

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def change(self, request: Request) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        known = await self._host.configuring.shown(name, context.tenant)
        filled = change_in(known, shape_of_fields(known), sent.texts, sent.files)
        if goes_on(sent.texts):
            return await self._page(
                request, replace(filled, shown=with_changed_rows(dict(filled.shown), sent.texts), problems=())
            )
        if filled.problems:
            return await self._page(request, filled, filled.problems, 422)
        try:
            await self._host.configuring.change(
                name, filled.values, filled.forgotten, tenant=context.tenant, by=context.principal.id
            )
        except PaddockError as refused:
            return await self._page(request, filled, _told(refused), http_status(refused))
        return done(plugin_page(name, "configuration"), "saved")

    async def forget(self, request: Request) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        known = await self._host.configuring.shown(name, context.tenant)
        wanted = [one.field.name for one in known.fields if one.field.name in sent.texts.get("field", ())]
        try:
            await self._host.configuring.change(name, {}, wanted, tenant=context.tenant, by=context.principal.id)
        except PaddockError as refused:
            return await self._page(request, None, _told(refused), http_status(refused))
        return done(plugin_page(name, "configuration"), "forgotten")

    async def _page(
        self, request: Request, filled: Filled | None = None, problems: Sequence[Problem] = (), status: int = 200
    ) -> Response:
        context, name = await context_of(self._host, request), named(request)
        known = await self._host.configuring.shown(name, context.tenant)
        runtime = self._host.runtime(known.plugin, context.tenant) or {}
        form = filled_form(known, shape_of_fields(known), filled.shown if filled else None, problems)
        values: dict[str, Any] = {"known": known, "form": form, "runtime": runtime}
        values["fields"] = beside(known, form, filled.typed_unseen if filled else frozenset()) if known.fields else []
        values |= {"shown_field": SHOWN, "shown": json.dumps(values_of(known), ensure_ascii=False, default=str)}
        return page(request, "plugin_configuration.html", values, status)


def _told(refused: PaddockError) -> Sequence[Problem]:
    if isinstance(refused, Invalid):
        return refused.problems
    return [refused.as_problem()]

"""What a plugin needs on this machine: which of it is set, setting it, and forgetting it. No secret is ever shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.parse import apply_row_edits, is_form_edit
from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, plugin_path, redirect_with_flash, render_page
from paddock.console.pages.plugins.configuration_form import (
    INITIAL_VALUES_FIELD,
    ConfigurationEdit,
    build_configuration_control,
    build_configuration_form,
    build_field_views,
    parse_configuration_form,
    visible_values,
)
from paddock.core.error_mapping import http_status
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class ConfigurationPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/configuration", self.show, OPERATOR),
            Page("POST", "/plugins/{name}/configuration", self.save, OPERATOR),
            Page("POST", "/plugins/{name}/configuration/forget", self.clear, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def save(self, request: Request) -> Response:
        context, name, sent = await call_context(self._host, request), path_param(request), await read_form(request)
        known = await self._host.config_service.describe(name, context.tenant)
        filled = parse_configuration_form(known, build_configuration_control(known), sent.texts, sent.files)
        if is_form_edit(sent.texts):
            return await self._render(
                request, replace(filled, shown=apply_row_edits(dict(filled.shown), sent.texts), problems=())
            )
        if filled.problems:
            return await self._render(request, filled, filled.problems, 422)
        try:
            await self._host.config_service.change(
                name, filled.values, filled.cleared, tenant=context.tenant, by=context.principal.id
            )
        except PaddockError as refused:
            return await self._render(request, filled, _problems_of(refused), http_status(refused))
        return redirect_with_flash(plugin_path(name, "configuration"), "saved")

    async def clear(self, request: Request) -> Response:
        context, name, sent = await call_context(self._host, request), path_param(request), await read_form(request)
        known = await self._host.config_service.describe(name, context.tenant)
        wanted = [one.field.name for one in known.fields if one.field.name in sent.texts.get("field", ())]
        try:
            await self._host.config_service.change(name, {}, wanted, tenant=context.tenant, by=context.principal.id)
        except PaddockError as refused:
            return await self._render(request, None, _problems_of(refused), http_status(refused))
        return redirect_with_flash(plugin_path(name, "configuration"), "forgotten")

    async def _render(
        self,
        request: Request,
        filled: ConfigurationEdit | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        known = await self._host.config_service.describe(name, context.tenant)
        runtime = self._host.runtime_status(known.plugin, context.tenant) or {}
        form = build_configuration_form(
            known, build_configuration_control(known), filled.shown if filled else None, problems
        )
        values: dict[str, Any] = {"known": known, "form": form, "runtime": runtime}
        values["fields"] = (
            build_field_views(known, form, filled.typed_secrets if filled else frozenset()) if known.fields else []
        )
        values |= {
            "shown_field": INITIAL_VALUES_FIELD,
            "shown": json.dumps(visible_values(known), ensure_ascii=False, default=str),
        }
        return render_page(request, "plugin_configuration.html", values, status)


def _problems_of(refused: PaddockError) -> Sequence[Problem]:
    if isinstance(refused, Invalid):
        return refused.problems
    return [refused.as_problem()]

"""The configuration page of a plugin: shows which fields are set, and sets or clears them. Secrets are never shown."""

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
from paddock.core.error_formats import http_status
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class ConfigurationPages:
    """Shows and changes the configuration of a plugin."""

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
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        configuration = await self._host.plugins.config.describe(name, context.tenant)
        edit = parse_configuration_form(
            configuration, build_configuration_control(configuration), form.texts, form.files
        )
        if is_form_edit(form.texts):
            return await self._render(
                request, replace(edit, shown=apply_row_edits(dict(edit.shown), form.texts), problems=())
            )
        if edit.problems:
            return await self._render(request, edit, edit.problems, 422)
        try:
            await self._host.plugins.config.change(
                name, edit.values, edit.cleared, tenant=context.tenant, by=context.principal.id
            )
        except PaddockError as error:
            return await self._render(request, edit, _problems_of(error), http_status(error))
        return redirect_with_flash(plugin_path(name, "configuration"), "saved")

    async def clear(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        configuration = await self._host.plugins.config.describe(name, context.tenant)
        cleared = [
            state.field.name for state in configuration.fields if state.field.name in form.texts.get("field", ())
        ]
        try:
            await self._host.plugins.config.change(name, {}, cleared, tenant=context.tenant, by=context.principal.id)
        except PaddockError as error:
            return await self._render(request, None, _problems_of(error), http_status(error))
        return redirect_with_flash(plugin_path(name, "configuration"), "forgotten")

    async def _render(
        self,
        request: Request,
        edit: ConfigurationEdit | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        configuration = await self._host.plugins.config.describe(name, context.tenant)
        runtime = self._host.plugins.processes.runtime_status(configuration.plugin, context.tenant) or {}
        form = build_configuration_form(
            configuration, build_configuration_control(configuration), edit.shown if edit else None, problems
        )
        values: dict[str, Any] = {"known": configuration, "form": form, "runtime": runtime}
        values["fields"] = (
            build_field_views(configuration, form, edit.typed_secrets if edit else frozenset())
            if configuration.fields
            else []
        )
        values |= {
            "shown_field": INITIAL_VALUES_FIELD,
            "shown": json.dumps(visible_values(configuration), ensure_ascii=False, default=str),
        }
        return render_page(request, "plugin_configuration.html", values, status)


def _problems_of(error: PaddockError) -> Sequence[Problem]:
    if isinstance(error, Invalid):
        return error.problems
    return [error.as_problem()]

"""The settings of a plugin: its knobs, and its configuration on this machine. Secrets are never shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.config.knob_values import KnobUpdate
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
from paddock.console.pages.plugins.knob_form import (
    INITIAL_VALUES_FIELD as INITIAL_KNOBS_FIELD,
)
from paddock.console.pages.plugins.knob_form import (
    build_knob_control,
    build_knob_form,
    build_knob_views,
    current_values,
    parse_knob_form,
)
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.core.error_formats import http_status
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class _RejectedKnobs(Struct, frozen=True):
    """Knob values that were not saved, and why."""

    problems: Sequence[Problem]
    value: Mapping[str, Any] | None = None


class _RejectedConfiguration(Struct, frozen=True):
    """Configuration values that were not saved, and why; none of them is a secret."""

    problems: Sequence[Problem]
    edit: ConfigurationEdit | None = None


class PluginSettingsPages:
    """Shows, sets and resets the knobs and the configuration of a plugin."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/settings", self.show, OPERATOR),
            Page("POST", "/plugins/{name}/knobs", self.save_knobs, OPERATOR),
            Page("POST", "/plugins/{name}/knobs/reset", self.reset_knobs, OPERATOR),
            Page("POST", "/plugins/{name}/configuration", self.save_configuration, OPERATOR),
            Page("POST", "/plugins/{name}/configuration/forget", self.clear_configuration, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    # --- knobs --------------------------------------------------------------------------------------------------------

    async def save_knobs(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        knobs = (await self._host.plugins.knobs.describe(name, context.tenant))["knobs"]
        parsed = parse_knob_form(knobs, build_knob_control(knobs), form.texts)
        if parsed.problems:
            return await self._render(request, _RejectedKnobs(parsed.problems, parsed.value), status=422)
        try:
            await self._host.plugins.knobs.set_knobs(name, parsed.turn, tenant=context.tenant, by=context.principal.id)
        except PaddockError as error:
            rejected = _RejectedKnobs(_problems_of(error), parsed.value)
            return await self._render(request, rejected, status=http_status(error))
        return redirect_with_flash(plugin_path(name, "settings"), "saved")

    async def reset_knobs(self, request: Request) -> Response:
        """Reset one knob or all to the default; stored values that are unused are deleted as well."""
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        described = await self._host.plugins.knobs.describe(name, context.tenant)
        resettable = [knob["name"] for knob in described["knobs"] if knob["set"]] + [
            knob["knob"] for knob in described["left_out"]
        ]
        names = (
            resettable if "all" in form.texts else [knob for knob in form.texts.get("knob", ()) if knob in resettable]
        )
        try:
            update = KnobUpdate({}, tuple(dict.fromkeys(names)))
            await self._host.plugins.knobs.set_knobs(name, update, tenant=context.tenant, by=context.principal.id)
        except PaddockError as error:
            return await self._render(request, _RejectedKnobs(_problems_of(error)), status=http_status(error))
        return redirect_with_flash(plugin_path(name, "settings"), "reset")

    # --- configuration ------------------------------------------------------------------------------------------------

    async def save_configuration(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        configuration = await self._host.plugins.config.describe(name, context.tenant)
        edit = parse_configuration_form(
            configuration, build_configuration_control(configuration), form.texts, form.files
        )
        if is_form_edit(form.texts):
            edited = replace(edit, shown=apply_row_edits(dict(edit.shown), form.texts), problems=())
            return await self._render(request, _RejectedConfiguration((), edited))
        if edit.problems:
            return await self._render(request, _RejectedConfiguration(edit.problems, edit), status=422)
        try:
            await self._host.plugins.config.change(
                name, edit.values, edit.cleared, tenant=context.tenant, by=context.principal.id
            )
        except PaddockError as error:
            rejected = _RejectedConfiguration(_problems_of(error), edit)
            return await self._render(request, rejected, status=http_status(error))
        return redirect_with_flash(plugin_path(name, "settings"), "saved")

    async def clear_configuration(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        configuration = await self._host.plugins.config.describe(name, context.tenant)
        cleared = [
            state.field.name for state in configuration.fields if state.field.name in form.texts.get("field", ())
        ]
        try:
            await self._host.plugins.config.change(name, {}, cleared, tenant=context.tenant, by=context.principal.id)
        except PaddockError as error:
            return await self._render(request, _RejectedConfiguration(_problems_of(error)), status=http_status(error))
        return redirect_with_flash(plugin_path(name, "settings"), "forgotten")

    # --- both ---------------------------------------------------------------------------------------------------------

    async def _render(
        self, request: Request, rejected: _RejectedKnobs | _RejectedConfiguration | None = None, status: int = 200
    ) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        values: dict[str, Any] = {
            "header": await load_header(self._host, request),
            "tuning": await self._knob_values(
                name, context.tenant, rejected if isinstance(rejected, _RejectedKnobs) else None
            ),
        }
        values |= await self._configuration_values(
            name, context.tenant, rejected if isinstance(rejected, _RejectedConfiguration) else None
        )
        return render_page(request, "plugins/plugin_settings.html", values, status)

    async def _knob_values(self, name: str, tenant: Tenant, rejected: _RejectedKnobs | None) -> dict[str, Any]:
        described = await self._host.plugins.knobs.describe(name, tenant)
        knobs = described["knobs"]
        form = build_knob_form(
            knobs,
            build_knob_control(knobs),
            rejected.value if rejected else None,
            rejected.problems if rejected else (),
        )
        return {
            "known": described,
            "form": form,
            "knobs": build_knob_views(knobs, form) if knobs else [],
            "shown_field": INITIAL_KNOBS_FIELD,
            "shown": json.dumps(current_values(knobs), ensure_ascii=False),
        }

    async def _configuration_values(
        self, name: str, tenant: Tenant, rejected: _RejectedConfiguration | None
    ) -> dict[str, Any]:
        configuration = await self._host.plugins.config.describe(name, tenant)
        edit = rejected.edit if rejected else None
        form = build_configuration_form(
            configuration,
            build_configuration_control(configuration),
            edit.shown if edit else None,
            rejected.problems if rejected else (),
        )
        return {
            "known": configuration,
            "form": form,
            "runtime": self._host.plugins.processes.runtime_status(configuration.plugin, tenant) or {},
            "fields": build_field_views(configuration, form, edit.typed_secrets if edit else frozenset())
            if configuration.fields
            else [],
            "shown_field": INITIAL_VALUES_FIELD,
            "shown": json.dumps(visible_values(configuration), ensure_ascii=False, default=str),
        }


def _problems_of(error: PaddockError) -> Sequence[Problem]:
    return error.problems if isinstance(error, Invalid) else [error.as_problem()]

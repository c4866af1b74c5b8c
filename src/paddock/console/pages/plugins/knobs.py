"""The knobs page of a plugin: shows, sets and resets its knobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.config.knob_values import KnobUpdate
from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, plugin_path, redirect_with_flash, render_page
from paddock.console.pages.plugins.knob_form import (
    INITIAL_VALUES_FIELD,
    build_knob_control,
    build_knob_form,
    build_knob_views,
    current_values,
    parse_knob_form,
)
from paddock.core.error_formats import http_status
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class KnobPages:
    """Shows, sets and resets the knobs of a plugin."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/knobs", self.show, OPERATOR),
            Page("POST", "/plugins/{name}/knobs", self.save, OPERATOR),
            Page("POST", "/plugins/{name}/knobs/reset", self.reset, OPERATOR),
        ]

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def save(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        knobs = (await self._host.plugins.knobs.describe(name, context.tenant))["knobs"]
        parsed = parse_knob_form(knobs, build_knob_control(knobs), form.texts)
        if parsed.problems:
            return await self._render(request, value=parsed.value, problems=parsed.problems, status=422)
        try:
            await self._host.plugins.knobs.set_knobs(name, parsed.turn, tenant=context.tenant, by=context.principal.id)
        except PaddockError as error:
            problems = error.problems if isinstance(error, Invalid) else [error.as_problem()]
            return await self._render(request, value=parsed.value, problems=problems, status=http_status(error))
        return redirect_with_flash(plugin_path(name, "knobs"), "saved")

    async def reset(self, request: Request) -> Response:
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
            problems = error.problems if isinstance(error, Invalid) else [error.as_problem()]
            return await self._render(request, problems=problems, status=http_status(error))
        return redirect_with_flash(plugin_path(name, "knobs"), "reset")

    async def _render(
        self,
        request: Request,
        *,
        value: Mapping[str, Any] | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        described = await self._host.plugins.knobs.describe(name, context.tenant)
        knobs = described["knobs"]
        form = build_knob_form(knobs, build_knob_control(knobs), value, problems)
        values: dict[str, Any] = {
            "known": described,
            "form": form,
            "knobs": build_knob_views(knobs, form) if knobs else [],
        }
        values |= {"shown_field": INITIAL_VALUES_FIELD, "shown": json.dumps(current_values(knobs), ensure_ascii=False)}
        return render_page(request, "plugin_knobs.html", values, status)

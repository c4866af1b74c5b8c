"""A plugin's knobs: what each is at, turning them all at once, and back to their defaults."""

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
from paddock.core.error_mapping import http_status
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import OPERATOR, path_param


class KnobPages:
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
        context, name, sent = await call_context(self._host, request), path_param(request), await read_form(request)
        knobs = (await self._host.knobs(name, context.tenant))["knobs"]
        filled = parse_knob_form(knobs, build_knob_control(knobs), sent.texts)
        if filled.problems:
            return await self._render(request, value=filled.value, problems=filled.problems, status=422)
        try:
            await self._host.knob_service.set_knobs(name, filled.turn, tenant=context.tenant, by=context.principal.id)
        except PaddockError as refused:
            problems = refused.problems if isinstance(refused, Invalid) else [refused.as_problem()]
            return await self._render(request, value=filled.value, problems=problems, status=http_status(refused))
        return redirect_with_flash(plugin_path(name, "knobs"), "saved")

    async def reset(self, request: Request) -> Response:
        """One knob back to its default, or all that were turned; what is kept and not used is forgotten as well."""
        context, name, sent = await call_context(self._host, request), path_param(request), await read_form(request)
        known = await self._host.knobs(name, context.tenant)
        kept = [one["name"] for one in known["knobs"] if one["set"]] + [one["knob"] for one in known["left_out"]]
        wanted = kept if "all" in sent.texts else [one for one in sent.texts.get("knob", ()) if one in kept]
        try:
            turn = KnobUpdate({}, tuple(dict.fromkeys(wanted)))
            await self._host.knob_service.set_knobs(name, turn, tenant=context.tenant, by=context.principal.id)
        except PaddockError as refused:
            problems = refused.problems if isinstance(refused, Invalid) else [refused.as_problem()]
            return await self._render(request, problems=problems, status=http_status(refused))
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
        known = await self._host.knobs(name, context.tenant)
        knobs = known["knobs"]
        form = build_knob_form(knobs, build_knob_control(knobs), value, problems)
        values: dict[str, Any] = {"known": known, "form": form, "knobs": build_knob_views(knobs, form) if knobs else []}
        values |= {"shown_field": INITIAL_VALUES_FIELD, "shown": json.dumps(current_values(knobs), ensure_ascii=False)}
        return render_page(request, "plugin_knobs.html", values, status)

"""A plugin's knobs: what each is at, turning them all at once, and back to their defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from paddock.config.knob_values import Turn
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.outward import http_status
from paddock.host.host import Host
from paddock.http.acting import context_of
from paddock.http.console.form_body import form_of
from paddock.http.console.knob_form import SHOWN, beside, shape_of_knobs, shown_knobs, turn_in, values_of
from paddock.http.console.page import Page, done, page, plugin_page
from paddock.http.endpoint import OPERATOR, named


class KnobPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/knobs", self.shown, OPERATOR),
            Page("POST", "/plugins/{name}/knobs", self.turn, OPERATOR),
            Page("POST", "/plugins/{name}/knobs/reset", self.reset, OPERATOR),
        ]

    async def shown(self, request: Request) -> Response:
        return await self._page(request)

    async def turn(self, request: Request) -> Response:
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        knobs = (await self._host.knobs(name, context.tenant))["knobs"]
        filled = turn_in(knobs, shape_of_knobs(knobs), sent.texts)
        if filled.problems:
            return await self._page(request, value=filled.value, problems=filled.problems, status=422)
        try:
            await self._host.turning.turn(name, filled.turn, tenant=context.tenant, by=context.principal.id)
        except PaddockError as refused:
            problems = refused.problems if isinstance(refused, Invalid) else [refused.as_problem()]
            return await self._page(request, value=filled.value, problems=problems, status=http_status(refused))
        return done(plugin_page(name, "knobs"), "saved")

    async def reset(self, request: Request) -> Response:
        """One knob back to its default, or all that were turned; what is kept and not used is forgotten as well."""
        context, name, sent = await context_of(self._host, request), named(request), await form_of(request)
        known = await self._host.knobs(name, context.tenant)
        kept = [one["name"] for one in known["knobs"] if one["set"]] + [one["knob"] for one in known["left_out"]]
        wanted = kept if "all" in sent.texts else [one for one in sent.texts.get("knob", ()) if one in kept]
        try:
            turn = Turn({}, tuple(dict.fromkeys(wanted)))
            await self._host.turning.turn(name, turn, tenant=context.tenant, by=context.principal.id)
        except PaddockError as refused:
            problems = refused.problems if isinstance(refused, Invalid) else [refused.as_problem()]
            return await self._page(request, problems=problems, status=http_status(refused))
        return done(plugin_page(name, "knobs"), "reset")

    async def _page(
        self,
        request: Request,
        *,
        value: Mapping[str, Any] | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        context, name = await context_of(self._host, request), named(request)
        known = await self._host.knobs(name, context.tenant)
        knobs = known["knobs"]
        form = shown_knobs(knobs, shape_of_knobs(knobs), value, problems)
        values: dict[str, Any] = {"known": known, "form": form, "knobs": beside(knobs, form) if knobs else []}
        values |= {"shown_field": SHOWN, "shown": json.dumps(values_of(knobs), ensure_ascii=False)}
        return page(request, "plugin_knobs.html", values, status)

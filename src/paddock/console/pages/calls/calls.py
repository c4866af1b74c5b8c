"""The page of a call, running or long over: result, timeline, decision, log, inputs; live while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import parse_form
from paddock.console.forms.request_form import MAX_FORM_FILES_BYTES, read_form
from paddock.console.page import Page, is_operator, render_page
from paddock.console.pages.calls.timeline import draw_timeline
from paddock.console.templates import HtmlFragment, StreamEnd, render_fragment
from paddock.console.text.call_text import (
    drop_repeats,
    event_text,
    latest_progress,
    origin_text,
    outcome_severity,
    outcome_text,
    preview_result,
)
from paddock.core.call import Principal
from paddock.core.elicitation import QuestionAnswer
from paddock.core.errors import NotFound, PaddockError
from paddock.core.schema.compile import compile_schema
from paddock.gate.calls.handle import MAX_RETAINED_EVENTS, CallHandle
from paddock.host.calls.call_record import CallRecordJson
from paddock.host.host import Host
from paddock.host.plugins.logs.log_lines import parse_log_line
from paddock.manifest.effects import EFFECT_TEXT
from paddock.web.request_context import call_context, is_owner
from paddock.web.routing.route import path_param
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, event_stream

_MAX_EVENTS = 8  # listed on the page
_MIN_UPDATE_INTERVAL_S = 0.3
_TICK_S = 1.0  # how often the page of a running call shows how long it takes
_RUNNING: Final = ("running", "in_progress")


class CallPages:
    """Shows calls with progress, questions and results."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/calls/{id}", self.show),
            Page("GET", "/calls/{id}/live", self.stream),
            Page("POST", "/calls/{id}/cancel", self.cancel),
            Page("POST", "/calls/{id}/questions/{question}", self.answer_question),
        ]

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(self, request: Request, forms: dict[str, FormView] | None = None, status: int = 200) -> Response:
        principal = (await call_context(self._host, request)).principal
        values = await self._values(path_param(request, "id").strip(), principal, forms)
        return render_page(request, "calls/call.html", values, status)

    async def stream(self, request: Request) -> Response:
        call = await self._find_call(request)
        principal = (await call_context(self._host, request)).principal
        return event_stream(self._fragments(call, principal), self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S)

    async def _fragments(
        self, call: CallHandle, principal: Principal
    ) -> AsyncGenerator[HtmlFragment | StreamEnd, None]:
        """Yield the live part of the page on each change, and every second while it runs, at a limited rate."""
        revision, last = -1, None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S if call.status in _RUNNING and revision >= 0 else None):
                    revision = await call.wait_changed(revision)
            over = call.is_over
            try:
                values = await self._values(call.id, principal)
            except NotFound:
                return  # it was evicted, or is not for them any more
            current = render_fragment("calls/call_state.html", {"operates": _operates(principal), **values})
            if current != last:
                last = current
                yield current
            if over:
                yield StreamEnd()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_MIN_UPDATE_INTERVAL_S):
                    await call.wait_ended()

    async def cancel(self, request: Request) -> Response:
        call = await self._find_call(request)
        await self._host.approvals.cancel(call)
        return RedirectResponse(f"/calls/{quote(call.id)}", 303)

    async def answer_question(self, request: Request) -> Response:
        call, form = await self._find_call(request), await read_form(request, MAX_FORM_FILES_BYTES)
        question_id = path_param(request, "question")
        open_question = next(
            (candidate for candidate in call.questions.to_json() if candidate["id"] == question_id), None
        )
        if open_question is None:
            raise NotFound("this question is not open any more", code="question.not_found")
        action = "accept" if form.last_text("_action") == "accept" else "decline"
        content: dict[str, Any] = {}
        if action == "accept" and "schema" in open_question:
            shape = build_control(open_question["schema"])
            value, problems = parse_form(shape, form.texts, form.files)
            problems = problems or compile_schema(open_question["schema"]).errors(value)
            if problems:
                return await self._render(request, {question_id: build_form(shape, value, problems)}, 422)
            content = value
        call.questions.answer(question_id, QuestionAnswer(action, content))
        return RedirectResponse(f"/calls/{quote(call.id)}", 303)

    async def _find_call(self, request: Request) -> CallHandle:
        context, caller = await call_context(self._host, request), caller_of(request)
        principal = caller.principal

        def is_visible(call: CallHandle) -> bool:
            return is_operator(caller) or is_owner(principal, call.context.principal)

        return await self._host.calls.waiting.find(path_param(request, "id"), context.tenant, is_visible)

    async def _values(
        self, call_id: str, principal: Principal, forms: dict[str, FormView] | None = None
    ) -> dict[str, Any]:
        record = await self._host.calls.records.show(call_id, principal)
        handle = await self._host.calls.waiting.get(call_id, principal.tenant, ended=False)
        events = [] if handle is None else handle.last_events(MAX_RETAINED_EVENTS)
        goes_on = handle is not None and not handle.is_over
        # An open question is shown as a form of its own.
        lines = [(event.number, event_text(event.data)) for event in events if event.kind != "question"]
        question_forms = {
            question["id"]: build_form(build_control(question["schema"]))
            for question in record["questions"]
            if "schema" in question
        }
        obstacle = self._obstacle(record, principal)
        return {
            "call": record,
            "goes_on": goes_on,
            "words": outcome_text(record["outcome"], record.get("error", {}).get("code", "")),
            "mood": outcome_severity(record["outcome"]),
            "origin": origin_text(record["origin"]),
            "progress": latest_progress([event.data for event in events if event.kind == "event"]) if goes_on else None,
            "messages": drop_repeats(lines)[-_MAX_EVENTS:],
            "glance": preview_result(record["result"]) if "result" in record else None,
            "forms": question_forms | (forms or {}),
            "timeline": draw_timeline(record["timeline"]),
            "log": None if record["log"] is None else [parse_log_line(line) for line in record["log"]],
            "effect_words": {str(effect): text for effect, text in EFFECT_TEXT.items()},
            "version_now": self._host.policy.active.policy.version,
            "runs_again": obstacle is None,
            "runs_not": obstacle,
        }

    def _obstacle(self, record: CallRecordJson, principal: Principal) -> PaddockError | None:
        """Return why its callable cannot be called any more; None if it can."""
        try:
            self._host.calls.registry.find_target(
                record["plugin"], record["callable"], self._host.call_context(principal)
            )
        except PaddockError as error:
            return error
        return None


def _operates(principal: Principal) -> bool:
    return "operator" in principal.roles

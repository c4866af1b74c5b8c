"""Running a tool from a form, and following what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView
from paddock.console.forms.fields import build_form as form_with
from paddock.console.forms.parse import RAW_JSON_FIELD, apply_row_edits, is_form_edit, parse_form
from paddock.console.forms.request_form import MAX_FORM_FILES_BYTES, read_form
from paddock.console.page import Page, is_operator, render_page
from paddock.console.templates import HtmlFragment, StreamEnd, render_fragment
from paddock.console.text.call_text import call_status_text, drop_repeats, event_text, latest_progress, preview_result
from paddock.core.elicitation import QuestionAnswer
from paddock.core.errors import Invalid, NotFound, Problem
from paddock.core.schema.compile import compile_schema
from paddock.gate.calls.handle import MAX_RETAINED_EVENTS, CallHandle
from paddock.host.explain.call_explanation import CallExplanation
from paddock.host.host import Host
from paddock.web.request_context import call_context, is_owner
from paddock.web.routing.route import path_param
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, event_stream

_ENDED_STATUSES = ("succeeded", "failed", "in_doubt", "cancelled")
_MAX_EVENTS = 8  # events that are listed
_MIN_UPDATE_INTERVAL_S = 0.2  # seconds


class ToolRunPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/run/{method:path}", self.show_form),
            Page("POST", "/plugins/{name}/run/{method:path}", self.run),
            Page("GET", "/calls/{id}", self.show_call),
            Page("GET", "/calls/{id}/progress", self.stream),
            Page("POST", "/calls/{id}/cancel", self.cancel),
            Page("POST", "/calls/{id}/questions/{question}", self.answer_question),
        ]

    # --- before it runs ----------------------------------------------------------------------------------------------

    async def show_form(self, request: Request) -> Response:
        tool = await self._find_tool(request)
        shape = build_control(tool["input_schema"] or {})
        return self._render_form(request, tool, form_with(shape), raw="raw" in request.query_params)

    async def run(self, request: Request) -> Response:
        tool, sent = await self._find_tool(request), await read_form(request, MAX_FORM_FILES_BYTES)
        shape = build_control(tool["input_schema"] or {})
        raw = RAW_JSON_FIELD in sent.texts
        value, problems = parse_form(shape, sent.texts, sent.files)
        if is_form_edit(sent.texts):
            return self._render_form(request, tool, form_with(shape, apply_row_edits(value, sent.texts)), raw=False)
        if problems and not raw:
            problems += _other_problems(tool["input_schema"], value, problems)
        if not problems:
            context = await call_context(self._host, request)
            try:
                live = self._host.calls.start(path_param(request), path_param(request, "method"), value, context)
                await _wait_for_rejection(live)
            except Invalid as wrong:
                problems = list(wrong.problems)
            else:
                return RedirectResponse(f"/calls/{live.id}", 303)
        text = sent.last_text(RAW_JSON_FIELD) if raw else None
        form = form_with(shape, value, problems)
        return self._render_form(request, tool, form, raw=raw, text=text, problems=problems, status=422)

    def _render_form(
        self,
        request: Request,
        tool: dict[str, Any],
        form: FormView,
        *,
        raw: bool,
        text: str | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        written = text if text is not None else json.dumps(form.root.value or {}, indent=2, ensure_ascii=False)
        values: dict[str, Any] = {"plugin": path_param(request), "tool": tool, "form": form, "problems": problems}
        values |= {"raw": raw, "text": written}
        return render_page(request, "run.html", values, status)

    async def _find_tool(self, request: Request) -> dict[str, Any]:
        context, name, method = (
            await call_context(self._host, request),
            path_param(request),
            path_param(request, "method"),
        )
        offered = await self._host.permitted_plugins.callable_names(name, context)
        tools = await self._host.tools(name, tenant=context.tenant)
        found = next((one for one in tools["tools"] if one["name"] == method), None)
        # Whoever operates the host sees every tool anyway, and learns here why the rules deny one.
        if found is None or (method not in offered and not is_operator(caller_of(request))):
            raise NotFound(f"{name} has no tool {method!r} for you", code="callable.not_found")
        return found | {"offered": method in offered}

    # --- while it runs, and after ------------------------------------------------------------------------------------

    async def show_call(self, request: Request) -> Response:
        try:
            live = await self._find_call(request)
        except NotFound:
            return await self._redirect_to_record(request)
        return render_page(request, "call.html", _call_values(live))

    async def _redirect_to_record(self, request: Request) -> Response:
        """A call that this host does not remember, as it was made before it started: what was recorded of it."""
        context, wanted = await call_context(self._host, request), path_param(request, "id")
        found = await self._host.explain_service.explain(wanted, context.principal)
        if not any(isinstance(one, CallExplanation) and one.timeline.call == wanted for one in found):
            raise NotFound(f"no call {wanted!r} is known", code="call.not_found")
        room = "ledger" if is_operator(caller_of(request)) else "explain"
        return RedirectResponse(f"/{room}/{quote(wanted, safe='')}", 303)

    async def stream(self, request: Request) -> Response:
        live = await self._find_call(request)
        return event_stream(_fragments(live), self._closing, last_words=FINAL_EVENT_TIMEOUT_S)

    async def cancel(self, request: Request) -> Response:
        live = await self._find_call(request)
        await self._host.approvals.cancel(live)
        return RedirectResponse(f"/calls/{quote(live.id)}", 303)

    async def answer_question(self, request: Request) -> Response:
        live, sent = await self._find_call(request), await read_form(request, MAX_FORM_FILES_BYTES)
        question = path_param(request, "question")
        asked = next((one for one in live.questions.to_json() if one["id"] == question), None)
        if asked is None:
            raise NotFound("this question is not open any more", code="question.not_found")
        action = "accept" if sent.last_text("_action") == "accept" else "decline"
        content: dict[str, Any] = {}
        if action == "accept" and "schema" in asked:
            shape = build_control(asked["schema"])
            value, problems = parse_form(shape, sent.texts, sent.files)
            problems = problems or compile_schema(asked["schema"]).errors(value)
            if problems:
                return render_page(
                    request, "call.html", _call_values(live, {question: form_with(shape, value, problems)}), 422
                )
            content = value
        live.questions.answer(question, QuestionAnswer(action, content))
        return RedirectResponse(f"/calls/{quote(live.id)}", 303)

    async def _find_call(self, request: Request) -> CallHandle:
        context, caller = await call_context(self._host, request), caller_of(request)
        by = caller.principal

        def theirs(live: CallHandle) -> bool:
            return is_operator(caller) or is_owner(by, live.context.principal)

        return self._host.calls.find(path_param(request, "id"), context.tenant, theirs)


async def _wait_for_rejection(live: CallHandle) -> None:
    """Wait a moment for a call that is refused at once: what is wrong with it is told at the form.

    Raises:
        Invalid: the parameters.
    """
    try:
        async with asyncio.timeout(0.5):
            await live.wait()
    except TimeoutError:
        return
    except Invalid:
        raise
    except Exception:  # noqa: S110 - whatever else became of it, its own page tells
        pass


def _other_problems(schema: Any, value: Any, problems: Sequence[Problem]) -> list[Problem]:
    """What is wrong beside that which could not even be read."""
    unread = tuple(one.path for one in problems)
    return [one for one in compile_schema(schema or {}).errors(value) if not one.path.startswith(unread)]


def _call_values(live: CallHandle, forms: dict[str, FormView] | None = None) -> dict[str, Any]:
    call = live.to_json()
    asked = {one["id"]: form_with(build_control(one["schema"])) for one in call["questions"] if "schema" in one}
    over = call["status"] in _ENDED_STATUSES
    kept = live.last_events(MAX_RETAINED_EVENTS)
    # A question is a form of its own while it is open.
    lines = [(event.number, event_text(event.data)) for event in kept if event.kind != "question"]
    return {
        "call": call,
        "over": over,
        "words": call_status_text(call["status"], call.get("error", {}).get("code", "")),
        "progress": None if over else latest_progress([event.data for event in kept if event.kind == "event"]),
        "told": drop_repeats(lines)[-_MAX_EVENTS:],
        "glance": preview_result(call["result"]) if "result" in call else None,
        "forms": asked | (forms or {}),
    }


async def _fragments(live: CallHandle) -> AsyncGenerator[HtmlFragment | StreamEnd, None]:
    """The part of the page that changes, each time that it does, but not more often than anybody can see."""
    seen = -1
    while True:
        seen = await live.wait_changed(seen)
        told = _call_values(live)
        yield render_fragment("call_state.html", told)
        if told["over"]:
            yield StreamEnd()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_MIN_UPDATE_INTERVAL_S):
                await live.wait_ended()

"""Pages for running a tool from a form, and following the call."""

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
from paddock.console.forms.fields import FormView, build_form
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
_MAX_EVENTS = 8  # listed on the page
_MIN_UPDATE_INTERVAL_S = 0.2


class ToolRunPages:
    """Runs tools, and shows their calls with progress, questions and results."""

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
        return self._render_form(request, tool, build_form(shape), raw="raw" in request.query_params)

    async def run(self, request: Request) -> Response:
        tool, form_data = await self._find_tool(request), await read_form(request, MAX_FORM_FILES_BYTES)
        shape = build_control(tool["input_schema"] or {})
        raw = RAW_JSON_FIELD in form_data.texts
        value, problems = parse_form(shape, form_data.texts, form_data.files)
        if is_form_edit(form_data.texts):
            return self._render_form(
                request, tool, build_form(shape, apply_row_edits(value, form_data.texts)), raw=False
            )
        if problems and not raw:
            problems += _other_problems(tool["input_schema"], value, problems)
        if not problems:
            context = await call_context(self._host, request)
            try:
                call = self._host.calls.registry.start(
                    path_param(request), path_param(request, "method"), value, context
                )
                await _wait_for_rejection(call)
            except Invalid as invalid:
                problems = list(invalid.problems)
            else:
                return RedirectResponse(f"/calls/{call.id}", 303)
        text = form_data.last_text(RAW_JSON_FIELD) if raw else None
        form = build_form(shape, value, problems)
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
        json_text = text if text is not None else json.dumps(form.root.value or {}, indent=2, ensure_ascii=False)
        values: dict[str, Any] = {"plugin": path_param(request), "tool": tool, "form": form, "problems": problems}
        values |= {"raw": raw, "text": json_text}
        return render_page(request, "run.html", values, status)

    async def _find_tool(self, request: Request) -> dict[str, Any]:
        context, name, method = (
            await call_context(self._host, request),
            path_param(request),
            path_param(request, "method"),
        )
        permitted = await self._host.calls.permitted_plugins.callable_names(name, context)
        tools = await self._host.plugins.features.tools(name, tenant=context.tenant)
        tool = next((candidate for candidate in tools["tools"] if candidate["name"] == method), None)
        # Operators see every tool anyway, and learn here why the policy denies one.
        if tool is None or (method not in permitted and not is_operator(caller_of(request))):
            raise NotFound(f"{name} has no tool {method!r} for you", code="callable.not_found")
        return tool | {"offered": method in permitted}

    # --- while it runs, and after ------------------------------------------------------------------------------------

    async def show_call(self, request: Request) -> Response:
        try:
            call = await self._find_call(request)
        except NotFound:
            return await self._redirect_to_record(request)
        return render_page(request, "call.html", _call_values(call))

    async def _redirect_to_record(self, request: Request) -> Response:
        """Redirect to the ledger for a call from before this daemon started."""
        context, call_id = await call_context(self._host, request), path_param(request, "id")
        explanations = await self._host.policy.explanations.explain(call_id, context.principal)
        if not any(
            isinstance(explanation, CallExplanation) and explanation.timeline.call == call_id
            for explanation in explanations
        ):
            raise NotFound(f"no call {call_id!r} is known", code="call.not_found")
        section = "ledger" if is_operator(caller_of(request)) else "explain"
        return RedirectResponse(f"/{section}/{quote(call_id, safe='')}", 303)

    async def stream(self, request: Request) -> Response:
        call = await self._find_call(request)
        return event_stream(_fragments(call), self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S)

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
                return render_page(
                    request, "call.html", _call_values(call, {question_id: build_form(shape, value, problems)}), 422
                )
            content = value
        call.questions.answer(question_id, QuestionAnswer(action, content))
        return RedirectResponse(f"/calls/{quote(call.id)}", 303)

    async def _find_call(self, request: Request) -> CallHandle:
        context, caller = await call_context(self._host, request), caller_of(request)
        principal = caller.principal

        def is_visible(call: CallHandle) -> bool:
            return is_operator(caller) or is_owner(principal, call.context.principal)

        return self._host.calls.registry.find(path_param(request, "id"), context.tenant, is_visible)


async def _wait_for_rejection(call: CallHandle) -> None:
    """Wait briefly for a call that is rejected at once, so that its problems are shown at the form.

    Raises:
        Invalid: the parameters are invalid.
    """
    try:
        async with asyncio.timeout(0.5):
            await call.wait()
    except TimeoutError:
        return
    except Invalid:
        raise
    except Exception:  # noqa: S110 - the call's own page shows any other outcome
        pass


def _other_problems(schema: Any, value: Any, problems: Sequence[Problem]) -> list[Problem]:
    """Return the validation problems of fields that could be parsed."""
    unparsed_paths = tuple(problem.path for problem in problems)
    return [
        problem for problem in compile_schema(schema or {}).errors(value) if not problem.path.startswith(unparsed_paths)
    ]


def _call_values(handle: CallHandle, forms: dict[str, FormView] | None = None) -> dict[str, Any]:
    call = handle.to_json()
    question_forms = {
        question["id"]: build_form(build_control(question["schema"]))
        for question in call["questions"]
        if "schema" in question
    }
    ended = call["status"] in _ENDED_STATUSES
    events = handle.last_events(MAX_RETAINED_EVENTS)
    # An open question is shown as a form of its own.
    lines = [(event.number, event_text(event.data)) for event in events if event.kind != "question"]
    return {
        "call": call,
        "over": ended,
        "words": call_status_text(call["status"], call.get("error", {}).get("code", "")),
        "progress": None if ended else latest_progress([event.data for event in events if event.kind == "event"]),
        "messages": drop_repeats(lines)[-_MAX_EVENTS:],
        "glance": preview_result(call["result"]) if "result" in call else None,
        "forms": question_forms | (forms or {}),
    }


async def _fragments(call: CallHandle) -> AsyncGenerator[HtmlFragment | StreamEnd, None]:
    """Yield the live part of the page on each change, at a limited rate."""
    revision = -1
    while True:
        revision = await call.wait_changed(revision)
        values = _call_values(call)
        yield render_fragment("call_state.html", values)
        if values["over"]:
            yield StreamEnd()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_MIN_UPDATE_INTERVAL_S):
                await call.wait_ended()

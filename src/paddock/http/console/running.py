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

from paddock.core.errors import Invalid, NotFound, Problem
from paddock.core.questions import Answer
from paddock.core.schema import compile_schema
from paddock.gate.live_call import KEPT_EVENTS, LiveCall
from paddock.host.explained import Explained
from paddock.host.host import Host
from paddock.http.acting import context_of, is_theirs
from paddock.http.auth import caller_of
from paddock.http.console.call_words import event_in_words, glance_at, progress_in, status_of, without_repeats
from paddock.http.console.form_body import LARGEST_FILES, form_of
from paddock.http.console.forms.fields import Form
from paddock.http.console.forms.fields import form_of as form_with
from paddock.http.console.forms.filled import RAW, value_in
from paddock.http.console.forms.rows import goes_on, with_changed_rows
from paddock.http.console.forms.shape import shape_of
from paddock.http.console.live_part import Over, Part, part
from paddock.http.console.page import Page, operates, page
from paddock.http.endpoint import named
from paddock.http.live import LAST_WORDS, event_stream

_OVER = ("succeeded", "failed", "in_doubt", "cancelled")
_LAST = 8  # events that are listed
_APART = 0.2  # seconds


class RunningPages:
    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def rows(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/run/{method:path}", self.ask),
            Page("POST", "/plugins/{name}/run/{method:path}", self.run),
            Page("GET", "/calls/{id}", self.shown),
            Page("GET", "/calls/{id}/progress", self.progress),
            Page("POST", "/calls/{id}/cancel", self.cancel),
            Page("POST", "/calls/{id}/questions/{question}", self.answer),
        ]

    # --- before it runs ----------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        tool = await self._tool(request)
        shape = shape_of(tool["input_schema"] or {})
        return self._form(request, tool, form_with(shape), raw="raw" in request.query_params)

    async def run(self, request: Request) -> Response:
        tool, sent = await self._tool(request), await form_of(request, LARGEST_FILES)
        shape = shape_of(tool["input_schema"] or {})
        raw = RAW in sent.texts
        value, problems = value_in(shape, sent.texts, sent.files)
        if goes_on(sent.texts):
            return self._form(request, tool, form_with(shape, with_changed_rows(value, sent.texts)), raw=False)
        if problems and not raw:
            problems += _others(tool["input_schema"], value, problems)
        if not problems:
            context = await context_of(self._host, request)
            try:
                live = self._host.calls.begin(named(request), named(request, "method"), value, context)
                await _begun(live)
            except Invalid as wrong:
                problems = list(wrong.problems)
            else:
                return RedirectResponse(f"/calls/{live.id}", 303)
        text = sent.one(RAW) if raw else None
        form = form_with(shape, value, problems)
        return self._form(request, tool, form, raw=raw, text=text, problems=problems, status=422)

    def _form(
        self,
        request: Request,
        tool: dict[str, Any],
        form: Form,
        *,
        raw: bool,
        text: str | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
    ) -> Response:
        written = text if text is not None else json.dumps(form.root.value or {}, indent=2, ensure_ascii=False)
        values: dict[str, Any] = {"plugin": named(request), "tool": tool, "form": form, "problems": problems}
        values |= {"raw": raw, "text": written}
        return page(request, "run.html", values, status)

    async def _tool(self, request: Request) -> dict[str, Any]:
        context, name, method = await context_of(self._host, request), named(request), named(request, "method")
        offered = await self._host.offers.names(name, context)
        tools = await self._host.tools(name, tenant=context.tenant)
        found = next((one for one in tools["tools"] if one["name"] == method), None)
        # Whoever operates the host sees every tool anyway, and learns here why the rules deny one.
        if found is None or (method not in offered and not operates(caller_of(request))):
            raise NotFound(f"{name} has no tool {method!r} for you", code="callable.not_found")
        return found | {"offered": method in offered}

    # --- while it runs, and after ------------------------------------------------------------------------------------

    async def shown(self, request: Request) -> Response:
        try:
            live = await self._found(request)
        except NotFound:
            return await self._former(request)
        return page(request, "call.html", _told(live))

    async def _former(self, request: Request) -> Response:
        """A call that this host does not remember, as it was made before it started: what was recorded of it."""
        context, wanted = await context_of(self._host, request), named(request, "id")
        found = await self._host.explaining.explain(wanted, context.principal)
        if not any(isinstance(one, Explained) and one.story.call == wanted for one in found):
            raise NotFound(f"no call {wanted!r} is known", code="call.not_found")
        room = "ledger" if operates(caller_of(request)) else "explain"
        return RedirectResponse(f"/{room}/{quote(wanted, safe='')}", 303)

    async def progress(self, request: Request) -> Response:
        live = await self._found(request)
        return event_stream(_changes(live), self._closing, last_words=LAST_WORDS)

    async def cancel(self, request: Request) -> Response:
        live = await self._found(request)
        await self._host.approving.cancel(live)
        return RedirectResponse(f"/calls/{quote(live.id)}", 303)

    async def answer(self, request: Request) -> Response:
        live, sent = await self._found(request), await form_of(request, LARGEST_FILES)
        question = named(request, "question")
        asked = next((one for one in live.questions.to_json() if one["id"] == question), None)
        if asked is None:
            raise NotFound("this question is not open any more", code="question.not_found")
        action = "accept" if sent.one("_action") == "accept" else "decline"
        content: dict[str, Any] = {}
        if action == "accept" and "schema" in asked:
            shape = shape_of(asked["schema"])
            value, problems = value_in(shape, sent.texts, sent.files)
            problems = problems or compile_schema(asked["schema"]).errors(value)
            if problems:
                return page(request, "call.html", _told(live, {question: form_with(shape, value, problems)}), 422)
            content = value
        live.questions.answer(question, Answer(action, content))
        return RedirectResponse(f"/calls/{quote(live.id)}", 303)

    async def _found(self, request: Request) -> LiveCall:
        context, caller = await context_of(self._host, request), caller_of(request)
        by = caller.principal

        def theirs(live: LiveCall) -> bool:
            return operates(caller) or is_theirs(by, live.context.principal)

        return self._host.calls.find(named(request, "id"), context.tenant, theirs)


async def _begun(live: LiveCall) -> None:
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


def _others(schema: Any, value: Any, problems: Sequence[Problem]) -> list[Problem]:
    """What is wrong beside that which could not even be read."""
    unread = tuple(one.path for one in problems)
    return [one for one in compile_schema(schema or {}).errors(value) if not one.path.startswith(unread)]


def _told(live: LiveCall, forms: dict[str, Form] | None = None) -> dict[str, Any]:
    call = live.to_json()
    asked = {one["id"]: form_with(shape_of(one["schema"])) for one in call["questions"] if "schema" in one}
    over = call["status"] in _OVER
    kept = live.last_events(KEPT_EVENTS)
    # A question is a form of its own while it is open.
    lines = [(event.number, event_in_words(event.data)) for event in kept if event.kind != "question"]
    return {
        "call": call,
        "over": over,
        "words": status_of(call["status"], call.get("error", {}).get("code", "")),
        "progress": None if over else progress_in([event.data for event in kept if event.kind == "event"]),
        "told": without_repeats(lines)[-_LAST:],
        "glance": glance_at(call["result"]) if "result" in call else None,
        "forms": asked | (forms or {}),
    }


async def _changes(live: LiveCall) -> AsyncGenerator[Part | Over, None]:
    """The part of the page that changes, each time that it does, but not more often than anybody can see."""
    seen = -1
    while True:
        seen = await live.changed(seen)
        told = _told(live)
        yield part("call_state.html", told)
        if told["over"]:
            yield Over()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_APART):
                await live.over()

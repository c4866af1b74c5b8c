"""Pages for running a tool from a form, also with the inputs of an earlier call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import FormView, build_form
from paddock.console.forms.parse import RAW_JSON_FIELD, apply_row_edits, is_form_edit, parse_form
from paddock.console.forms.request_form import MAX_FORM_FILES_BYTES, read_form
from paddock.console.page import Page, is_operator, render_page
from paddock.console.pages.plugins.plugin_header import load_header
from paddock.core.errors import Invalid, NotFound, Problem
from paddock.core.schema.compile import compile_schema
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.redact_inputs import without_paths
from paddock.host.calls.call_record import unknown_call_error
from paddock.host.host import Host
from paddock.web.request_context import call_context
from paddock.web.routing.route import MAX_NAME_CHARS, path_param
from paddock.web.security.authenticate import caller_of


class EarlierCall(Struct, frozen=True):
    """The call that is made again: whether its inputs are still kept, and the paths of secrets to enter again."""

    call_id: str
    kept: bool
    redacted: tuple[str, ...]


class ToolRunPages:
    """Runs tools from a form."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins/{name}/run/{method:path}", self.show_form),
            Page("POST", "/plugins/{name}/run/{method:path}", self.run),
        ]

    async def show_form(self, request: Request) -> Response:
        tool = await self._find_tool(request)
        shape = build_control(tool["input_schema"] or {})
        raw = "raw" in request.query_params
        if call_id := request.query_params.get("again", "")[:MAX_NAME_CHARS]:
            value, redacted = await self._earlier_inputs(request, call_id)
            again = EarlierCall(call_id, value is not None, redacted)
            form = build_form(shape) if value is None else build_form(shape, value)
            return await self._render_form(request, tool, form, raw=raw, again=again)
        return await self._render_form(request, tool, build_form(shape), raw=raw)

    async def _earlier_inputs(self, request: Request, call_id: str) -> tuple[Any, tuple[str, ...]]:
        """Return the inputs of an earlier call of this tool without the secrets, None if they are not kept; and the
        paths of the secrets.

        Raises:
            NotFound: there is no such call for the caller, or it was one of another tool.
        """
        principal = (await call_context(self._host, request)).principal
        record = await self._host.calls.records.show(call_id, principal)
        if (record["plugin"], record["callable"]) != (path_param(request), path_param(request, "method")):
            raise unknown_call_error(call_id)
        value = without_paths(record["inputs"], record["redacted"]) if record["inputs_kept"] else None
        return value, tuple(record["redacted"])

    async def run(self, request: Request) -> Response:
        tool, form_data = await self._find_tool(request), await read_form(request, MAX_FORM_FILES_BYTES)
        shape = build_control(tool["input_schema"] or {})
        raw = RAW_JSON_FIELD in form_data.texts
        value, problems = parse_form(shape, form_data.texts, form_data.files)
        if is_form_edit(form_data.texts):
            return await self._render_form(
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
        return await self._render_form(request, tool, form, raw=raw, text=text, problems=problems, status=422)

    async def _render_form(
        self,
        request: Request,
        tool: dict[str, Any],
        form: FormView,
        *,
        raw: bool,
        text: str | None = None,
        problems: Sequence[Problem] = (),
        status: int = 200,
        again: EarlierCall | None = None,
    ) -> Response:
        json_text = text if text is not None else json.dumps(form.root.value or {}, indent=2, ensure_ascii=False)
        values: dict[str, Any] = {"plugin": path_param(request), "tool": tool, "form": form, "problems": problems}
        values |= {"raw": raw, "text": json_text, "again": again, "trail_plugin": path_param(request)}
        if is_operator(caller_of(request)):
            values["header"] = await load_header(self._host, request)
        return render_page(request, "plugins/run.html", values, status)

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

"""`/calls` and `/plugins/{name}/call`: make, list, follow, answer, explain and cancel calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response

from paddock.api.call_schemas import ANSWER_BODY, EXECUTE_BODY, MAKE_CALL_BODY, PARAMS_BODY
from paddock.core.call import CallContext
from paddock.core.elicitation import QuestionAnswer
from paddock.core.errors import NeedsApproval
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.registry import MAX_ENDED_CALLS
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.idempotency.states import validate_idempotency_key
from paddock.host.explain.explain_service import explanations_to_json
from paddock.host.host import Host
from paddock.web.disconnect import client_connection
from paddock.web.request_context import call_context, call_location, is_owner, is_tenant_operator, request_tenant
from paddock.web.request_headers import request_headers
from paddock.web.routing.route import (
    EVENT_STREAM,
    JSON,
    MAX_NAME_CHARS,
    TENANT_PARAM,
    ApiRoute,
    ExtraResponse,
    bool_param,
    bool_param_spec,
    int_param,
    int_param_spec,
    json_response,
    path_param,
)
from paddock.web.routing.schema import ref
from paddock.web.routing.validation import AFTER_PARAM, ParameterSpec, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, ServerSentEvent, event_stream, last_event_id

_DETACH_PARAMS = TENANT_PARAM | {
    "detach": bool_param_spec("1: answer at once with 202 and the call's id, as `Prefer: respond-async` does.")
}
_PREFER_HEADER = {"Prefer": ParameterSpec("`respond-async`: as `detach`.")}
_CALL_ERROR_STATUSES = (409, 429, 502, 504)  # beside those of every route
_CALL_RESPONSE = (
    "The call with its `result`. With `Accept: text/event-stream` alone, what the plugin tells, then the call."
    " 202 with its id when it goes on without the caller; otherwise a caller that hangs up cancels it."
    " What the plugin asks is put to callers of these two kinds, and declined for one that waits for the result alone."
    " With the header `Paddock-As: user:ann` the operator makes the call as somebody else, with what they may do."
)
_EXECUTE_RESPONSE = (
    "Shu's ToolResult: `status`, `data`, and what else the plugin gave with it; `call_id` and `Content-Location` say"
    " which call it was. "
) + _CALL_RESPONSE.partition(". ")[2]
_EXTRA_RESPONSES = (
    ExtraResponse(
        200,
        EVENT_STREAM,
        "What the plugin tells, each an event `event`; what it asks, each a `question`; then `end` with the call,"
        " whatever became of it. `Content-Location` is where to look at the call, from the first moment on.",
    ),
    ExtraResponse(
        202,
        JSON,
        "The id of a call that goes on without its caller, or that waits for a person, with its `approval`; `Location`"
        " is where to look at it.",
        {"anyOf": [ref("Call"), ref("Detached")]},
    ),
)
_EVENTS, _JSON = EVENT_STREAM.encode(), JSON.encode()
_DEFAULT_LIMIT = 100

CallRenderer: TypeAlias = Callable[[CallHandle], dict[str, Any]]
"""Renders a call that has succeeded."""


class CallRoutes:
    """Routes that make calls through the gate, and show them."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "POST",
                "/plugins/{name}/call/{method:path}",
                self.call_method,
                "Call one callable of a plugin",
                _CALL_RESPONSE,
                query=_DETACH_PARAMS,
                headers=_PREFER_HEADER,
                body_description="The parameters.",
                request_schema=PARAMS_BODY,
                response_schema=ref("Call"),
                extra_responses=_EXTRA_RESPONSES,
                error_statuses=_CALL_ERROR_STATUSES,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/execute",
                self.execute_plugin,
                "Call a plugin that is one callable",
                _EXECUTE_RESPONSE,
                query=_DETACH_PARAMS,
                headers=_PREFER_HEADER,
                body_description="`params`, or `parameters` as Shu's document writes it.",
                request_schema=EXECUTE_BODY,
                response_schema=ref("ToolResult"),
                extra_responses=_EXTRA_RESPONSES,
                error_statuses=_CALL_ERROR_STATUSES,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/calls",
                self.make_call,
                "Call by full name",
                _CALL_RESPONSE,
                query=_DETACH_PARAMS,
                headers=_PREFER_HEADER,
                request_schema=MAKE_CALL_BODY,
                response_schema=ref("Call"),
                extra_responses=_EXTRA_RESPONSES,
                error_statuses=(404, *_CALL_ERROR_STATUSES),
                allow_impersonation=True,
                body_description="`name`: as in `memory-markdown.recall`; `params`: the parameters;"
                " `approval_token`: the `token` of a call that waited for a person, to come back for it, once, with the"
                " same name and parameters;"
                " `idempotency_key`: as the header of that name.",
            ),
            ApiRoute(
                "GET",
                "/calls",
                self.list_calls,
                "List the last calls",
                "`calls`: those under way and those that ended, newest first, without their results; for whoever is no"
                " operator those that they or their keys made.",
                query=TENANT_PARAM
                | {"limit": int_param_spec(f"How many ({_DEFAULT_LIMIT}).", _DEFAULT_LIMIT, MAX_ENDED_CALLS)},
                response_schema=ref("Calls"),
            ),
            ApiRoute(
                "GET",
                "/calls/{id}",
                self.show_call,
                "Look at a call",
                "Its status, its result or error, and `questions`: those of its plugin that wait for an answer;"
                " `undisclosed` where it used the `network` or a `model` and its answer does not say so; `in_progress`"
                " of one that its operator is at work on: how often that was `asked`, the `result` it gave last, when"
                " it is asked `next`, and `until` when.",
                query=TENANT_PARAM,
                response_schema=ref("Call"),
            ),
            ApiRoute(
                "GET",
                "/calls/{id}/explanation",
                self.explain_call,
                "Explain what was decided about a call",
                "`calls`: of each who made it, what it was, `decision` and `rules` with their texts, what an agent"
                " `proposed` where that was denied, what it used without saying so (`undisclosed`), what would"
                " have changed it (`would_change_it`), what the rules say `today`, and its `course`. The id may also be"
                " that of a request, an approval or an entry of the ledger; `uses` are denials of what plugins asked of"
                " the host. Read from the ledger: calls are found that the daemon has forgotten.",
                query=TENANT_PARAM,
                response_schema=ref("Explanation"),
                allow_impersonation=True,
            ),
            ApiRoute(
                "GET",
                "/calls/{id}/events",
                self.follow_call,
                "Follow a call",
                "Server-sent events: `event` for what the plugin tells; `question` for what it asks, with an `id`, its"
                " `message`, and a `schema` or a `url`, and again with `type` `answered` when that is over; `end` at"
                " last. `Last-Event-ID` resumes.",
                query=TENANT_PARAM,
                headers={"Last-Event-ID": AFTER_PARAM},
                media_type=EVENT_STREAM,
            ),
            ApiRoute(
                "POST",
                "/calls/{id}/questions/{question}",
                self.answer_question,
                "Answer what a plugin asks during a call",
                "The call. 422 with every mistake where the content does not fit the question's schema: it stays open."
                " 404 for one that is not open any more, 409 once the call is over.",
                query=TENANT_PARAM,
                body_description="`action`: accept, decline or cancel; `content`: the answer, where it is accepted.",
                request_schema=ANSWER_BODY,
                response_schema=ref("Call"),
                error_statuses=(409, 422),
            ),
            ApiRoute(
                "POST",
                "/calls/{id}/cancel",
                self.cancel_call,
                "Ask for the end of a call",
                "The call; look again for how it ended.",
                query=TENANT_PARAM,
                response_schema=ref("Call"),
                error_statuses=(409,),
                status=202,
            ),
        ]

    async def call_method(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        target = self._host.calls.registry.find_target(path_param(request), path_param(request, "method"), context)
        return await self._start_call(request, target, validated_body(request), context)

    async def execute_plugin(self, request: Request) -> Response:
        body = validated_body(request)
        params = body.get("params", body.get("parameters", {}))
        context = await call_context(self._host, request)
        return await self._start_call(
            request,
            self._host.calls.registry.find_target(path_param(request), "", context),
            params,
            context,
            _shu_tool_result,
        )

    async def make_call(self, request: Request) -> Response:
        body = validated_body(request)
        name, params = body["name"][:MAX_NAME_CHARS], body.get("params", {})
        context = await call_context(self._host, request)
        if "idempotency_key" in body:
            context = replace(context, idempotency_key=validate_idempotency_key(body["idempotency_key"]))
        target = self._host.calls.registry.find_target_by_name(name, context)
        if "approval_token" in body:
            resumed = await self._host.calls.callable_access.claim_approved_call(
                body["approval_token"], target, params, context
            )
            return await self._respond(request, resumed)
        return await self._start_call(request, target, params, context)

    async def _start_call(
        self,
        request: Request,
        target: CallTarget,
        params: dict[str, Any],
        context: CallContext,
        render: CallRenderer = CallHandle.to_json,
    ) -> Response:
        if _can_answer_questions(request):
            return await self._respond(request, self._host.calls.registry.start_target(target, params, context), render)
        call, outcome = self._host.calls.registry.start_inline(target, params, context)
        return await _await_outcome(request, call, outcome, render)

    async def _respond(self, request: Request, call: CallHandle, render: CallRenderer = CallHandle.to_json) -> Response:
        if _wants_detached(request):
            return json_response({"call_id": call.id, "status": call.status}, 202, {"location": call_location(call)})
        if _wants_stream(request):
            events = _caller_events(call)
            return event_stream(
                events, self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S, content_location=call_location(call)
            )
        return await _await_outcome(request, call, call.wait(), render)

    async def list_calls(self, request: Request) -> Response:
        limit, tenant = int_param(request, "limit", _DEFAULT_LIMIT), await request_tenant(self._host, request)
        return json_response({"calls": self._host.calls.registry.recent(limit, tenant, _visibility_filter(request))})

    async def show_call(self, request: Request) -> Response:
        return json_response(await self._host.calls.registry.describe(await self._find_call(request)))

    async def _find_call(self, request: Request) -> CallHandle:
        return self._host.calls.registry.find(
            path_param(request, "id"), await request_tenant(self._host, request), _visibility_filter(request)
        )

    async def explain_call(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        subject_id = path_param(request, "id")
        return json_response(
            explanations_to_json(subject_id, await self._host.policy.explanations.explain(subject_id, principal))
        )

    async def cancel_call(self, request: Request) -> Response:
        call = await self._find_call(request)
        await self._host.approvals.cancel(call)
        return json_response(call.to_json(), 202)

    async def answer_question(self, request: Request) -> Response:
        call = await self._find_call(request)
        body = validated_body(request)
        call.questions.answer(path_param(request, "question"), QuestionAnswer(body["action"], body.get("content", {})))
        return json_response(call.to_json())

    async def follow_call(self, request: Request) -> Response:
        call = await self._find_call(request)
        return event_stream(
            _call_events(call, last_event_id(request)), self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S
        )


async def _await_outcome(
    request: Request, call: CallHandle, outcome: Coroutine[Any, Any, Any], render: CallRenderer
) -> Response:
    """Wait for a call and render its outcome; a client that disconnects cancels it."""
    location = call_location(call)
    request.scope["state"]["instance"] = location  # if it fails, the problem body names the call
    with client_connection(request.scope).on_disconnect(call.on_disconnect):
        try:
            await outcome
        except NeedsApproval as pending:  # it continues without its caller, once approved
            return json_response(call.to_json() | {"approval": dict(pending.details)}, 202, {"location": location})
    replayed = {} if call.replay_of is None else {"idempotency-replayed": "true"}
    return json_response(render(call), headers={"content-location": location, **replayed})


async def _call_events(call: CallHandle, after: int) -> AsyncGenerator[ServerSentEvent, None]:
    async for event in call.events(after):
        yield ServerSentEvent(event.data, event.kind, event.number)
    await call.wait_ended()
    yield ServerSentEvent(call.to_json(), "end")


async def _caller_events(call: CallHandle) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield the events of a call for the client that made it; a disconnect cancels the call."""
    try:
        async for event in _call_events(call, 0):
            yield event
    finally:
        call.on_disconnect()


def _visibility_filter(request: Request) -> Callable[[CallHandle], bool] | None:
    """Return the filter for calls that a caller may see; None (no filter) for operators of the tenant."""
    principal = caller_of(request).principal
    return None if is_tenant_operator(principal) else lambda call: is_owner(principal, call.context.principal)


def _shu_tool_result(call: CallHandle) -> dict[str, Any]:
    """Render a call as Shu's ToolResult; results of other plugins are wrapped as `data`."""
    result: Any = call.result
    if isinstance(result, dict):
        tool_result = cast("dict[str, Any]", result)
        if tool_result.get("status") == "success" and "data" in tool_result:
            return {**tool_result, "call_id": call.id}
    return {"status": "success", "data": result, "call_id": call.id}


def _wants_stream(request: Request) -> bool:
    accept = request_headers(request.scope).get(b"accept", b"")
    return _EVENTS in accept and _JSON not in accept  # clients that accept both get the result alone


def _can_answer_questions(request: Request) -> bool:
    """Return whether the client can see and answer questions while the call runs."""
    return _wants_stream(request) or _wants_detached(request)


def _wants_detached(request: Request) -> bool:
    prefer = request_headers(request.scope).get(b"prefer", b"").lower()
    return b"respond-async" in prefer or (request.scope["query_string"] != b"" and bool_param(request, "detach"))

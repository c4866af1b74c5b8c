"""Routes that make calls: `/plugins/{name}/call`, `/plugins/{name}/execute` and `/calls`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar, cast

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from paddock.api.calls import call_events
from paddock.core.call import CallContext
from paddock.core.errors import CallerError, NeedsApproval
from paddock.core.schema_annotations import MemberConstraint
from paddock.gate.calls.handle import CallHandle, CallJson, CallStatus
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.dry_run import DryRunJson
from paddock.gate.effects.approval_preview import pending_approval_json
from paddock.gate.idempotency.key_verdict import MAX_KEY_CHARS, validate_idempotency_key
from paddock.host.host import Host
from paddock.web.disconnect import client_connection
from paddock.web.request_context import call_context, call_location
from paddock.web.request_headers import request_headers
from paddock.web.routing.route import (
    EVENT_STREAM,
    JSON,
    MAX_NAME_CHARS,
    TENANT_PARAM,
    ApiRoute,
    ExtraResponse,
    JsonResponse,
    RequestBody,
    bool_param,
    bool_param_spec,
    path_param,
)
from paddock.web.routing.validation import ParameterSpec, validated_body
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, ServerSentEvent, event_stream


class DetachedCallJson(TypedDict):
    """A call that continues without its client."""

    call_id: str
    status: CallStatus


class ToolResultJson(TypedDict):
    """Shu's ToolResult, with the call that produced it."""

    status: Literal["success"]
    data: Annotated[Any, "The plugin's result."]
    cost: NotRequired[Any]
    diagnostics: NotRequired[Any]
    skips: NotRequired[Any]
    citations: NotRequired[Any]
    next_cursor: NotRequired[Any]
    call_id: Annotated[str, "The id of the call, as in `/calls/{id}`."]


class ExecuteBody(TypedDict):
    params: NotRequired[Annotated[dict[str, Any], "The parameters of the call."]]
    parameters: NotRequired[Annotated[dict[str, Any], "The same, under the name in Shu's document."]]
    user_context: NotRequired[Annotated[dict[str, Any], "Ignored: the credential identifies the caller."]]


class MakeCallBody(TypedDict):
    name: Annotated[str, "The full name, as in `memory-markdown.recall`."]
    params: NotRequired[Annotated[dict[str, Any], "The parameters of the call."]]
    approval_token: NotRequired[
        Annotated[str, "The `token` of a call that waited for approval: resumes it, once, with the same parameters."]
    ]
    dry_run: NotRequired[Annotated[bool, "As the query parameter."]]
    idempotency_key: NotRequired[
        Annotated[str, MemberConstraint(min_length=1, max_length=MAX_KEY_CHARS), "As the header `Idempotency-Key`."]
    ]


_CALL_PARAMS = TENANT_PARAM | {
    "detach": bool_param_spec("1: respond at once with 202 and the call's id, as `Prefer: respond-async` does."),
    "dry_run": bool_param_spec("1: decide and validate the call, and say what would happen. Nothing runs."),
}
_PREFER_HEADER = {"Prefer": ParameterSpec("`respond-async`: the same as `detach`.")}
_CALL_ERROR_STATUSES = (409, 429, 502, 504)  # beside those of every route
_HOW_IT_RESPONDS = (
    " With `Accept: text/event-stream` alone, the events of the call, then the call."
    " 202 with its id if it continues without the client; otherwise a client that disconnects cancels it."
    " Questions of the plugin reach clients that stream or detach; for others they are declined."
    " With the header `Paddock-As: user:ann` the operator makes the call as another principal, with their rights."
)
_CALL_RESPONSE = f"The call with its `result`.{_HOW_IT_RESPONDS}"
_EXECUTE_RESPONSE = f"Shu's ToolResult, with the `call_id`, also in `Content-Location`.{_HOW_IT_RESPONDS}"
_EXTRA_RESPONSES = (
    ExtraResponse(
        200,
        EVENT_STREAM,
        "The plugin's events as `event`, its questions as `question`, then `end` with the call and its outcome."
        " `Content-Location` is the URL of the call.",
    ),
    ExtraResponse(
        202,
        JSON,
        "The call continues without its client, or waits for approval; `Location` is its URL.",
        CallJson | DetachedCallJson,
    ),
)
_EVENTS, _JSON = EVENT_STREAM.encode(), JSON.encode()

T = TypeVar("T")  # what a call that has succeeded is rendered as


class MakeCallRoutes:
    """Routes that make calls through the gate."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "POST",
                "/plugins/{name}/call/{method:path}",
                self.call_method,
                "Call a callable of a plugin",
                _CALL_RESPONSE,
                query=_CALL_PARAMS,
                headers=_PREFER_HEADER,
                request_body=RequestBody(dict[str, Any], {"text": "hello"}, "The parameters of the call."),
                extra_responses=_EXTRA_RESPONSES,
                error_statuses=_CALL_ERROR_STATUSES,
                allow_impersonation=True,
            ),
            ApiRoute(
                "POST",
                "/plugins/{name}/execute",
                self.execute_plugin,
                "Call a plugin with a single callable",
                _EXECUTE_RESPONSE,
                query=_CALL_PARAMS,
                headers=_PREFER_HEADER,
                request_body=RequestBody(ExecuteBody, {"params": {"query": "status of the project"}}),
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
                query=_CALL_PARAMS,
                headers=_PREFER_HEADER,
                request_body=RequestBody(MakeCallBody, {"name": "memory-markdown.recall", "params": {"query": "keys"}}),
                extra_responses=_EXTRA_RESPONSES,
                error_statuses=(404, *_CALL_ERROR_STATUSES),
                allow_impersonation=True,
            ),
        ]

    async def call_method(self, request: Request) -> JsonResponse[CallJson | DryRunJson] | Response:
        context = await call_context(self._host, request)
        target = self._host.calls.registry.find_target(path_param(request), path_param(request, "method"), context)
        params = validated_body(request, dict[str, Any])
        return await self._start_call(request, target, params, context, CallHandle.to_json)

    async def execute_plugin(self, request: Request) -> JsonResponse[ToolResultJson | DryRunJson] | Response:
        body = validated_body(request, ExecuteBody)
        params = body.get("params", body.get("parameters", {}))
        context = await call_context(self._host, request)
        return await self._start_call(
            request,
            self._host.calls.registry.find_target(path_param(request), "", context),
            params,
            context,
            _shu_tool_result,
        )

    async def make_call(self, request: Request) -> JsonResponse[CallJson | DryRunJson] | Response:
        body = validated_body(request, MakeCallBody)
        name, params = body["name"][:MAX_NAME_CHARS], body.get("params", {})
        dry_run = body.get("dry_run", False) or _wants_dry_run(request)
        context = await call_context(self._host, request)
        if "idempotency_key" in body:
            context = replace(context, idempotency_key=validate_idempotency_key(body["idempotency_key"]))
        target = self._host.calls.registry.find_target_by_name(name, context)
        if "approval_token" in body:
            if dry_run:
                raise CallerError("an approved call cannot be a dry run", code="invalid_params", hint="leave one out")
            resumed = await self._host.calls.callable_access.claim_approved_call(
                body["approval_token"], target, params, context
            )
            return await self._respond(request, resumed, CallHandle.to_json)
        return await self._start_call(request, target, params, context, CallHandle.to_json, dry_run=dry_run)

    async def _start_call(
        self,
        request: Request,
        target: CallTarget,
        params: dict[str, Any],
        context: CallContext,
        render: Callable[[CallHandle], T],
        *,
        dry_run: bool = False,
    ) -> JsonResponse[T] | JsonResponse[DryRunJson] | Response:
        if _wants_detached(request):
            context = replace(context, background=True)
        if dry_run or _wants_dry_run(request):
            outcome = await self._host.calls.callable_access.dry_run(target, params, context)
            return JsonResponse(outcome.to_json())
        if _can_answer_questions(request):
            return await self._respond(request, self._host.calls.registry.start_target(target, params, context), render)
        call, outcome = self._host.calls.registry.start_inline(target, params, context)
        return await _await_outcome(request, call, outcome, render)

    async def _respond(
        self, request: Request, call: CallHandle, render: Callable[[CallHandle], T]
    ) -> JsonResponse[T] | Response:
        if _wants_detached(request):
            detached: DetachedCallJson = {"call_id": call.id, "status": call.status}
            return JsonResponse(detached, 202, {"location": call_location(call)})
        if _wants_stream(request):
            events = _caller_events(call)
            return event_stream(
                events, self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S, content_location=call_location(call)
            )
        return await _await_outcome(request, call, call.wait(), render)


async def _await_outcome(
    request: Request, call: CallHandle, outcome: Coroutine[Any, Any, Any], render: Callable[[CallHandle], T]
) -> JsonResponse[T] | Response:
    """Wait for a call and render its outcome; a client that disconnects cancels it."""
    location = call_location(call)
    request.scope["state"]["instance"] = location  # if it fails, the problem body names the call
    with client_connection(request.scope).on_disconnect(call.on_disconnect):
        try:
            await outcome
        except NeedsApproval as pending:  # it continues without its caller, once approved
            waiting: CallJson = {**call.to_json(), "approval": pending_approval_json(pending)}
            return JsonResponse(waiting, 202, {"location": location})
    replayed = {} if call.replay_of is None else {"idempotency-replayed": "true"}
    return JsonResponse(render(call), headers={"content-location": location, **replayed})


async def _caller_events(call: CallHandle) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield the events of a call for the client that made it; a disconnect cancels the call."""
    try:
        async for event in call_events(call):
            yield event
    finally:
        call.on_disconnect()


def _shu_tool_result(call: CallHandle) -> ToolResultJson:
    """Render a call as Shu's ToolResult; results of other plugins are wrapped as `data`."""
    result: Any = call.result
    if isinstance(result, dict):
        tool_result = cast("dict[str, Any]", result)
        if tool_result.get("status") == "success" and "data" in tool_result:
            return cast("ToolResultJson", {**tool_result, "call_id": call.id})
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


def _wants_dry_run(request: Request) -> bool:
    return request.scope["query_string"] != b"" and bool_param(request, "dry_run")

"""Calls: making one, waiting for it, following it, ending it."""

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
_CALL_ERROR_STATUSES = (409, 429, 502, 504)  # what a call can come to, besides what every row can
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
"""How a call is told once it has succeeded."""


class CallRoutes:
    """Every way over HTTP into the one door."""

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
        target = self._host.calls.find_target(path_param(request), path_param(request, "method"), context)
        return await self._start_call(request, target, validated_body(request), context)

    async def execute_plugin(self, request: Request) -> Response:
        body = validated_body(request)
        params = body.get("params", body.get("parameters", {}))
        context = await call_context(self._host, request)
        return await self._start_call(
            request, self._host.calls.find_target(path_param(request), "", context), params, context, _shu_tool_result
        )

    async def make_call(self, request: Request) -> Response:
        body = validated_body(request)
        name, params = body["name"][:MAX_NAME_CHARS], body.get("params", {})
        context = await call_context(self._host, request)
        if "idempotency_key" in body:
            context = replace(context, idempotency_key=validate_idempotency_key(body["idempotency_key"]))
        if "approval_token" in body:
            return await self._respond(
                request, await self._host.claim_approved_call(body["approval_token"], name, params, context)
            )
        return await self._start_call(request, self._host.calls.find_target_by_name(name, context), params, context)

    async def _start_call(
        self,
        request: Request,
        target: CallTarget,
        params: dict[str, Any],
        context: CallContext,
        shown: CallRenderer = CallHandle.to_json,
    ) -> Response:
        if _can_answer_questions(request):
            return await self._respond(request, self._host.calls.start_target(target, params, context), shown)
        live, made = self._host.calls.start_inline(target, params, context)
        return await _await_outcome(request, live, made, shown)

    async def _respond(self, request: Request, live: CallHandle, shown: CallRenderer = CallHandle.to_json) -> Response:
        if _wants_detached(request):
            return json_response({"call_id": live.id, "status": live.status}, 202, {"location": call_location(live)})
        if _wants_stream(request):
            told = _caller_events(live)
            return event_stream(told, self._closing, last_words=FINAL_EVENT_TIMEOUT_S, where=call_location(live))
        return await _await_outcome(request, live, live.wait(), shown)

    async def list_calls(self, request: Request) -> Response:
        most, tenant = int_param(request, "limit", _DEFAULT_LIMIT), await request_tenant(self._host, request)
        return json_response({"calls": self._host.calls.recent(most, tenant, _visibility_filter(request))})

    async def show_call(self, request: Request) -> Response:
        return json_response(await self._host.describe_call(await self._find_call(request)))

    async def _find_call(self, request: Request) -> CallHandle:
        return self._host.calls.find(
            path_param(request, "id"), await request_tenant(self._host, request), _visibility_filter(request)
        )

    async def explain_call(self, request: Request) -> Response:
        by = (await call_context(self._host, request)).principal
        asked = path_param(request, "id")
        return json_response(explanations_to_json(asked, await self._host.explain_service.explain(asked, by)))

    async def cancel_call(self, request: Request) -> Response:
        live = await self._find_call(request)
        await self._host.approvals.cancel(live)
        return json_response(live.to_json(), 202)

    async def answer_question(self, request: Request) -> Response:
        live = await self._find_call(request)
        body = validated_body(request)
        live.questions.answer(path_param(request, "question"), QuestionAnswer(body["action"], body.get("content", {})))
        return json_response(live.to_json())

    async def follow_call(self, request: Request) -> Response:
        live = await self._find_call(request)
        return event_stream(_call_events(live, last_event_id(request)), self._closing, last_words=FINAL_EVENT_TIMEOUT_S)


async def _await_outcome(
    request: Request, live: CallHandle, outcome: Coroutine[Any, Any, Any], shown: CallRenderer
) -> Response:
    """What comes of a call, for a caller who waits for it and cancels it by hanging up."""
    where = call_location(live)
    request.scope["state"]["instance"] = where  # should it fail, the problem names the call
    with client_connection(request.scope).on_disconnect(live.on_disconnect):
        try:
            await outcome
        except NeedsApproval as held:  # it goes on without its caller, once somebody said yes
            return json_response(live.to_json() | {"approval": dict(held.details)}, 202, {"location": where})
    replayed = {} if live.replay_of is None else {"idempotency-replayed": "true"}
    return json_response(shown(live), headers={"content-location": where, **replayed})


async def _call_events(live: CallHandle, after: int) -> AsyncGenerator[ServerSentEvent, None]:
    async for event in live.events(after):
        yield ServerSentEvent(event.data, event.kind, event.number)
    await live.wait_ended()
    yield ServerSentEvent(live.to_json(), "end")


async def _caller_events(live: CallHandle) -> AsyncGenerator[ServerSentEvent, None]:
    """The same for whoever made the call: when they hang up, nobody wants it any more."""
    try:
        async for told in _call_events(live, 0):
            yield told
    finally:
        live.on_disconnect()


def _visibility_filter(request: Request) -> Callable[[CallHandle], bool] | None:
    """Which calls of their tenant a caller is shown; all where they operate it."""
    by = caller_of(request).principal
    return None if is_tenant_operator(by) else lambda live: is_owner(by, live.context.principal)


def _shu_tool_result(live: CallHandle) -> dict[str, Any]:
    """What came of a call, in Shu's words; a plugin of another document gives only the data."""
    given: Any = live.result
    if isinstance(given, dict):
        told = cast("dict[str, Any]", given)
        if told.get("status") == "success" and "data" in told:
            return {**told, "call_id": live.id}
    return {"status": "success", "data": given, "call_id": live.id}


def _wants_stream(request: Request) -> bool:
    accepts = request_headers(request.scope).get(b"accept", b"")
    return _EVENTS in accepts and _JSON not in accepts  # whoever takes both need not be told what happens meanwhile


def _can_answer_questions(request: Request) -> bool:
    """Whether whoever calls can see questions while the call is under way."""
    return _wants_stream(request) or _wants_detached(request)


def _wants_detached(request: Request) -> bool:
    prefers = request_headers(request.scope).get(b"prefer", b"").lower()
    return b"respond-async" in prefers or (request.scope["query_string"] != b"" and bool_param(request, "detach"))

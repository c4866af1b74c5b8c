"""`/calls`: list, show, explain, follow, answer and cancel calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.elicitation import QuestionAnswer
from paddock.gate.calls.handle import CallHandle, CallJson, CallSummaryJson
from paddock.gate.calls.recent_calls import MAX_ENDED_CALLS
from paddock.host.calls.call_record import CallRecordJson
from paddock.host.explain.explain_service import ExplanationJson, explanations_to_json
from paddock.host.host import Host
from paddock.web.request_context import call_context, is_owner, is_tenant_operator, request_tenant
from paddock.web.routing.route import (
    EVENT_STREAM,
    TENANT_PARAM,
    ApiRoute,
    JsonResponse,
    RequestBody,
    int_param,
    int_param_spec,
    path_param,
)
from paddock.web.routing.validation import AFTER_PARAM, validated_body
from paddock.web.security.authenticate import caller_of
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, ServerSentEvent, event_stream, last_event_id


class CallsJson(TypedDict):
    calls: list[CallSummaryJson]


class AnswerQuestionBody(TypedDict):
    action: Literal["accept", "decline", "cancel"]
    content: NotRequired[Annotated[dict[str, Any], "The answer, if it is accepted."]]


_DEFAULT_LIMIT = 100


class CallRoutes:
    """Routes for the calls that this host knows."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                "/calls",
                self.list_calls,
                "List recent calls",
                "`calls`: running and ended ones, newest first, without their results. Callers who are not operators"
                " see the calls that they or their keys made.",
                query=TENANT_PARAM
                | {
                    "limit": int_param_spec(
                        f"Maximum number; {_DEFAULT_LIMIT} by default.", _DEFAULT_LIMIT, MAX_ENDED_CALLS
                    )
                },
            ),
            ApiRoute(
                "GET",
                "/calls/{id}",
                self.show_call,
                "Show a call",
                "The call, running or long over: its result or error and its open questions; the inputs without"
                " secrets; what took how long; the decision and its rules; what its plugin logged for it. What is no"
                " longer known, such as the result of a call that only read before the last restart, is left out, and"
                " the record says so.",
                query=TENANT_PARAM,
            ),
            ApiRoute(
                "GET",
                "/calls/{id}/explanation",
                self.explain_call,
                "Explain the decision about a call",
                "Each call with its principal, the `decision` and its `rules`, what would have changed it, the decision"
                " under today's rules, and what happened. The id may also be that of a request, an approval or a ledger"
                " entry; `uses` are denied capability requests of plugins. Read from the ledger, so calls that the"
                " daemon no longer keeps are found too.",
                query=TENANT_PARAM,
                allow_impersonation=True,
            ),
            ApiRoute(
                "GET",
                "/calls/{id}/events",
                self.follow_call,
                "Follow a call",
                "Server-sent events: `event` for the plugin's events; `question` for its questions, and again with"
                " `type` `answered` when one is closed; `end` at last. `Last-Event-ID` resumes.",
                query=TENANT_PARAM,
                headers={"Last-Event-ID": AFTER_PARAM},
                media_type=EVENT_STREAM,
            ),
            ApiRoute(
                "POST",
                "/calls/{id}/questions/{question}",
                self.answer_question,
                "Answer a question of a plugin",
                "The call. 422 with every mistake if the content does not match the question's schema: the question"
                " stays open. 404 if the question is closed, 409 if the call has ended.",
                query=TENANT_PARAM,
                request_body=RequestBody(AnswerQuestionBody, {"action": "accept", "content": {"colour": "green"}}),
                error_statuses=(409, 422),
            ),
            ApiRoute(
                "POST",
                "/calls/{id}/cancel",
                self.cancel_call,
                "Cancel a call",
                "The call, whose cancellation was requested; request it again for its outcome.",
                query=TENANT_PARAM,
                error_statuses=(409,),
                status=202,
            ),
        ]

    async def list_calls(self, request: Request) -> JsonResponse[CallsJson]:
        principal = (await call_context(self._host, request)).principal
        listed = await self._host.calls.history.recent(principal, int_param(request, "limit", _DEFAULT_LIMIT))
        return JsonResponse({"calls": [one.summary for one in listed]})

    async def show_call(self, request: Request) -> JsonResponse[CallRecordJson]:
        principal = (await call_context(self._host, request)).principal
        return JsonResponse(await self._host.calls.records.show(path_param(request, "id"), principal))

    async def _find_call(self, request: Request) -> CallHandle:
        return await self._host.calls.waiting.find(
            path_param(request, "id"), await request_tenant(self._host, request), _visibility_filter(request)
        )

    async def explain_call(self, request: Request) -> JsonResponse[ExplanationJson]:
        principal = (await call_context(self._host, request)).principal
        subject_id = path_param(request, "id")
        return JsonResponse(
            explanations_to_json(subject_id, await self._host.policy.explanations.explain(subject_id, principal))
        )

    async def cancel_call(self, request: Request) -> JsonResponse[CallJson]:
        call = await self._find_call(request)
        await self._host.approvals.cancel(call)
        return JsonResponse(call.to_json(), 202)

    async def answer_question(self, request: Request) -> JsonResponse[CallJson]:
        call = await self._find_call(request)
        body = validated_body(request, AnswerQuestionBody)
        call.questions.answer(path_param(request, "question"), QuestionAnswer(body["action"], body.get("content", {})))
        return JsonResponse(call.to_json())

    async def follow_call(self, request: Request) -> Response:
        call = await self._find_call(request)
        return event_stream(
            call_events(call, last_event_id(request)), self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S
        )


async def call_events(call: CallHandle, after: int = 0) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield the events of a call with a greater number than `after`, then its end."""
    async for event in call.events(after):
        yield ServerSentEvent(event.data, event.kind, event.number)
    await call.wait_ended()
    yield ServerSentEvent(call.to_json(), "end")


def _visibility_filter(request: Request) -> Callable[[CallHandle], bool] | None:
    """Return the filter for calls that a caller may see; None (no filter) for operators of the tenant."""
    principal = caller_of(request).principal
    return None if is_tenant_operator(principal) else lambda call: is_owner(principal, call.context.principal)

"""Calls: making one, waiting for it, following it, ending it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.call import CallContext
from paddock.core.errors import NeedsApproval
from paddock.core.questions import Answer
from paddock.gate.calls import KEPT_CALLS
from paddock.gate.catalogue import Target
from paddock.gate.effects.keys import checked_key
from paddock.gate.live_call import LiveCall
from paddock.host.explaining import to_value
from paddock.host.host import Host
from paddock.http.acting import address_of, context_of, is_theirs, sees_all, tenant_of
from paddock.http.auth import caller_of
from paddock.http.checking import Parameter, body_of
from paddock.http.client import client_of
from paddock.http.endpoint import (
    EVENTS,
    JSON,
    LONGEST_NAME,
    WHOSE,
    Also,
    Endpoint,
    answer,
    count_of,
    flag,
    named,
    number,
    yes_or_no,
)
from paddock.http.head import head_of
from paddock.http.live import AFTER, LAST_WORDS, Told, event_stream, last_event_id
from paddock.http.schemas.building import ref
from paddock.http.schemas.calls import ANSWER, EXECUTE, MAKE_CALL, PARAMS

_DETACH = WHOSE | {
    "detach": yes_or_no("1: answer at once with 202 and the call's id, as `Prefer: respond-async` does.")
}
_PREFER = {"Prefer": Parameter("`respond-async`: as `detach`.")}
_CALLING = (409, 429, 502, 504)  # what a call can come to, besides what every row can
_ANSWER = (
    "The call with its `result`. With `Accept: text/event-stream` alone, what the plugin tells, then the call."
    " 202 with its id when it goes on without the caller; otherwise a caller that hangs up cancels it."
    " What the plugin asks is put to callers of these two kinds, and declined for one that waits for the result alone."
    " With the header `Paddock-As: user:ann` the operator makes the call as somebody else, with what they may do."
)
_EXECUTED = (
    "Shu's ToolResult: `status`, `data`, and what else the plugin gave with it; `call_id` and `Content-Location` say"
    " which call it was. "
) + _ANSWER.partition(". ")[2]
_ALSO = (
    Also(
        200,
        EVENTS,
        "What the plugin tells, each an event `event`; what it asks, each a `question`; then `end` with the call,"
        " whatever became of it. `Content-Location` is where to look at the call, from the first moment on.",
    ),
    Also(
        202,
        JSON,
        "The id of a call that goes on without its caller, or that waits for a person, with its `approval`; `Location`"
        " is where to look at it.",
        {"anyOf": [ref("Call"), ref("Detached")]},
    ),
)
_EVENTS, _JSON = EVENTS.encode(), JSON.encode()
_LISTED = 100

Shown: TypeAlias = Callable[[LiveCall], dict[str, Any]]
"""How a call is told once it has succeeded."""


class CallRoutes:
    """Every way over HTTP into the one door."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "POST",
                "/plugins/{name}/call/{method:path}",
                self.call_method,
                "Call one callable of a plugin",
                _ANSWER,
                query=_DETACH,
                headers=_PREFER,
                body="The parameters.",
                takes=PARAMS,
                gives=ref("Call"),
                also=_ALSO,
                fails=_CALLING,
                for_others=True,
            ),
            Endpoint(
                "POST",
                "/plugins/{name}/execute",
                self.execute_plugin,
                "Call a plugin that is one callable",
                _EXECUTED,
                query=_DETACH,
                headers=_PREFER,
                body="`params`, or `parameters` as Shu's document writes it.",
                takes=EXECUTE,
                gives=ref("ToolResult"),
                also=_ALSO,
                fails=_CALLING,
                for_others=True,
            ),
            Endpoint(
                "POST",
                "/calls",
                self.make_call,
                "Call by full name",
                _ANSWER,
                query=_DETACH,
                headers=_PREFER,
                takes=MAKE_CALL,
                gives=ref("Call"),
                also=_ALSO,
                fails=(404, *_CALLING),
                for_others=True,
                body="`name`: as in `memory-markdown.recall`; `params`: the parameters; `approval_token`: the `token`"
                " of a call that waited for a person, to come back for it, once, with the same name and parameters;"
                " `idempotency_key`: as the header of that name.",
            ),
            Endpoint(
                "GET",
                "/calls",
                self.list_calls,
                "List the last calls",
                "`calls`: those under way and those that ended, newest first, without their results; for whoever is no"
                " operator those that they or their keys made.",
                query=WHOSE | {"limit": count_of(f"How many ({_LISTED}).", _LISTED, KEPT_CALLS)},
                gives=ref("Calls"),
            ),
            Endpoint(
                "GET",
                "/calls/{id}",
                self.show_call,
                "Look at a call",
                "Its status, its result or error, and `questions`: those of its plugin that wait for an answer;"
                " `undisclosed` where it used the `network` or a `model` and its answer does not say so; `in_progress`"
                " of one that its operator is at work on: how often that was `asked`, the `result` it gave last, when"
                " it is asked `next`, and `until` when.",
                query=WHOSE,
                gives=ref("Call"),
            ),
            Endpoint(
                "GET",
                "/calls/{id}/explanation",
                self.explain_call,
                "Explain what was decided about a call",
                "`calls`: of each who made it, what it was, `decision` and `rules` with their texts, what an agent"
                " `proposed` where that was denied, what it used without saying so (`undisclosed`), what would"
                " have changed it (`would_change_it`), what the rules say `today`, and its `course`. The id may also be"
                " that of a request, an approval or an entry of the ledger; `uses` are denials of what plugins asked of"
                " the host. Read from the ledger: calls are found that the daemon has forgotten.",
                query=WHOSE,
                gives=ref("Explanation"),
                for_others=True,
            ),
            Endpoint(
                "GET",
                "/calls/{id}/events",
                self.follow_call,
                "Follow a call",
                "Server-sent events: `event` for what the plugin tells; `question` for what it asks, with an `id`, its"
                " `message`, and a `schema` or a `url`, and again with `type` `answered` when that is over; `end` at"
                " last. `Last-Event-ID` resumes.",
                query=WHOSE,
                headers={"Last-Event-ID": AFTER},
                media=EVENTS,
            ),
            Endpoint(
                "POST",
                "/calls/{id}/questions/{question}",
                self.answer_question,
                "Answer what a plugin asks during a call",
                "The call. 422 with every mistake where the content does not fit the question's schema: it stays open."
                " 404 for one that is not open any more, 409 once the call is over.",
                query=WHOSE,
                body="`action`: accept, decline or cancel; `content`: the answer, where it is accepted.",
                takes=ANSWER,
                gives=ref("Call"),
                fails=(409, 422),
            ),
            Endpoint(
                "POST",
                "/calls/{id}/cancel",
                self.cancel_call,
                "Ask for the end of a call",
                "The call; look again for how it ended.",
                query=WHOSE,
                gives=ref("Call"),
                fails=(409,),
                status=202,
            ),
        ]

    async def call_method(self, request: Request) -> Response:
        context = await context_of(self._host, request)
        target = self._host.calls.target(named(request), named(request, "method"), context)
        return await self._made(request, target, body_of(request), context)

    async def execute_plugin(self, request: Request) -> Response:
        body = body_of(request)
        params = body.get("params", body.get("parameters", {}))
        context = await context_of(self._host, request)
        return await self._made(
            request, self._host.calls.target(named(request), "", context), params, context, _tool_result
        )

    async def make_call(self, request: Request) -> Response:
        body = body_of(request)
        name, params = body["name"][:LONGEST_NAME], body.get("params", {})
        context = await context_of(self._host, request)
        if "idempotency_key" in body:
            context = replace(context, idempotency_key=checked_key(body["idempotency_key"]))
        if "approval_token" in body:
            return await self._answered(
                request, await self._host.claimed(body["approval_token"], name, params, context)
            )
        return await self._made(request, self._host.calls.target_named(name, context), params, context)

    async def _made(
        self,
        request: Request,
        target: Target,
        params: dict[str, Any],
        context: CallContext,
        shown: Shown = LiveCall.to_json,
    ) -> Response:
        if _answers(request):
            return await self._answered(request, self._host.calls.begin_at(target, params, context), shown)
        live, made = self._host.calls.admit_at(target, params, context)
        return await _waited_for(request, live, made, shown)

    async def _answered(self, request: Request, live: LiveCall, shown: Shown = LiveCall.to_json) -> Response:
        if _detached(request):
            return answer({"call_id": live.id, "status": live.status}, 202, {"location": address_of(live)})
        if _follows(request):
            told = _told_to_its_caller(live)
            return event_stream(told, self._closing, last_words=LAST_WORDS, where=address_of(live))
        return await _waited_for(request, live, live.wait(), shown)

    async def list_calls(self, request: Request) -> Response:
        most, tenant = number(request, "limit", _LISTED), await tenant_of(self._host, request)
        return answer({"calls": self._host.calls.recent(most, tenant, _shown_to(request))})

    async def show_call(self, request: Request) -> Response:
        return answer(await self._host.shown(await self._found(request)))

    async def _found(self, request: Request) -> LiveCall:
        return self._host.calls.find(named(request, "id"), await tenant_of(self._host, request), _shown_to(request))

    async def explain_call(self, request: Request) -> Response:
        by = (await context_of(self._host, request)).principal
        asked = named(request, "id")
        return answer(to_value(asked, await self._host.explaining.explain(asked, by)))

    async def cancel_call(self, request: Request) -> Response:
        live = await self._found(request)
        await self._host.approving.cancel(live)
        return answer(live.to_json(), 202)

    async def answer_question(self, request: Request) -> Response:
        live = await self._found(request)
        body = body_of(request)
        live.questions.answer(named(request, "question"), Answer(body["action"], body.get("content", {})))
        return answer(live.to_json())

    async def follow_call(self, request: Request) -> Response:
        live = await self._found(request)
        return event_stream(_told(live, last_event_id(request)), self._closing, last_words=LAST_WORDS)


async def _waited_for(request: Request, live: LiveCall, outcome: Coroutine[Any, Any, Any], shown: Shown) -> Response:
    """What comes of a call, for a caller who waits for it and cancels it by hanging up."""
    where = address_of(live)
    request.scope["state"]["instance"] = where  # should it fail, the problem names the call
    with client_of(request.scope).when_gone(live.hung_up):
        try:
            await outcome
        except NeedsApproval as held:  # it goes on without its caller, once somebody said yes
            return answer(live.to_json() | {"approval": dict(held.details)}, 202, {"location": where})
    replayed = {} if live.replay_of is None else {"idempotency-replayed": "true"}
    return answer(shown(live), headers={"content-location": where, **replayed})


async def _told(live: LiveCall, after: int) -> AsyncGenerator[Told, None]:
    async for event in live.events(after):
        yield Told(event.data, event.kind, event.number)
    await live.over()
    yield Told(live.to_json(), "end")


async def _told_to_its_caller(live: LiveCall) -> AsyncGenerator[Told, None]:
    """The same for whoever made the call: when they hang up, nobody wants it any more."""
    try:
        async for told in _told(live, 0):
            yield told
    finally:
        live.hung_up()


def _shown_to(request: Request) -> Callable[[LiveCall], bool] | None:
    """Which calls of their tenant a caller is shown; all where they operate it."""
    by = caller_of(request).principal
    return None if sees_all(by) else lambda live: is_theirs(by, live.context.principal)


def _tool_result(live: LiveCall) -> dict[str, Any]:
    """What came of a call, in Shu's words; a plugin of another document gives only the data."""
    given: Any = live.result
    if isinstance(given, dict):
        told = cast("dict[str, Any]", given)
        if told.get("status") == "success" and "data" in told:
            return {**told, "call_id": live.id}
    return {"status": "success", "data": given, "call_id": live.id}


def _follows(request: Request) -> bool:
    accepts = head_of(request.scope).get(b"accept", b"")
    return _EVENTS in accepts and _JSON not in accepts  # whoever takes both need not be told what happens meanwhile


def _answers(request: Request) -> bool:
    """Whether whoever calls can see questions while the call is under way."""
    return _follows(request) or _detached(request)


def _detached(request: Request) -> bool:
    prefers = head_of(request.scope).get(b"prefer", b"").lower()
    return b"respond-async" in prefers or (request.scope["query_string"] != b"" and flag(request, "detach"))

"""What a server wants to know from a person: its question as ours, the answer as the protocol writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from paddock.core.printable import printable
from paddock.plugins.supervision.questions import Answer, Question
from paddock.plugins.supervision.wire import FollowUp, Message
from paddock.rpc.faults import INVALID_PARAMS, METHOD_NOT_FOUND, RpcFault

ELICIT: Final = "elicitation/create"
LONGEST_MESSAGE: Final = 4_000
LONGEST_URL: Final = 2_000
MOST_QUESTIONS: Final = 16
STATE_ONLY_PAUSE: Final = 0.25
"""Seconds before a server is asked again that wants nothing but that."""


def question_of(params: Mapping[str, Any]) -> Question:
    """The question in a server's request.

    Raises:
        RpcFault: there is none that a person could be asked.
    """
    message = params.get("message")
    if not isinstance(message, str):
        raise RpcFault(INVALID_PARAMS, "`message` is not text")
    shown = printable(message, LONGEST_MESSAGE)
    mode = params.get("mode", "form")
    if mode == "form":
        schema: Any = params.get("requestedSchema")
        if not isinstance(schema, dict):
            raise RpcFault(INVALID_PARAMS, "`requestedSchema` is not an object")
        return Question(shown, schema=cast("dict[str, Any]", schema))
    if mode == "url":
        return Question(shown, url=_address(params.get("url")))
    raise RpcFault(INVALID_PARAMS, "`mode` is neither form nor url")


def answer_on_wire(question: Question, answer: Answer) -> dict[str, Any]:
    """The answer as the server gets it."""
    if answer.action != "accept" or question.url is not None:
        return {"action": answer.action}
    return {"action": "accept", "content": dict(answer.content)}


def asked_back(sent: Message, raw: Any) -> FollowUp | None:
    """What a stateless server wants before it answers this request; None for an answer.

    Raises:
        RpcFault: it wants what it cannot have.
    """
    told = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if told.get("resultType") != "input_required":
        return None
    given: dict[str, Any] = {}
    asked: dict[str, Question] = {}
    for key, request in _requests(told):
        match request.get("method"):
            case "elicitation/create":
                params: Any = request.get("params")
                question = question_of(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
                asked[key] = replace(question, key=key)
            case "roots/list":
                given[key] = {"roots": []}
            case method:
                raise RpcFault(METHOD_NOT_FOUND, f"it wants {printable(str(method), 80)}, which this host does not do")

    def again(answers: Sequence[Answer]) -> Message:
        answered = {
            key: answer_on_wire(question, answer)
            for (key, question), answer in zip(asked.items(), answers, strict=True)
        }
        params = {**sent.params, "inputResponses": {**given, **answered}}
        if "requestState" in told:
            params["requestState"] = told["requestState"]
        return Message(sent.method, params)

    return FollowUp(tuple(asked.values()), again, 0.0 if asked or given else STATE_ONLY_PAUSE)


def _requests(told: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    requests: Any = told.get("inputRequests") or {}
    if not isinstance(requests, dict) or len(cast("dict[str, Any]", requests)) > MOST_QUESTIONS:
        raise RpcFault(
            INVALID_PARAMS, f"it wants something that is not a handful of questions, at most {MOST_QUESTIONS}"
        )
    return [
        (key, cast("Mapping[str, Any]", request) if isinstance(request, dict) else {})
        for key, request in cast("dict[str, Any]", requests).items()
    ]


def _address(url: Any) -> str:
    web = isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= LONGEST_URL
    if not web or not url.isprintable() or " " in url:
        raise RpcFault(INVALID_PARAMS, "`url` is not a web address")
    return url

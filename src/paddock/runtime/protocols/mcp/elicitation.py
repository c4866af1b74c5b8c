"""What a server wants to know from a person: its question as ours, the answer as the protocol writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from paddock.core.printable import printable
from paddock.rpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from paddock.runtime.calls import Question, QuestionAnswer
from paddock.runtime.protocol_adapter import InputRequired, OutgoingMessage

ELICIT_METHOD: Final = "elicitation/create"
MAX_MESSAGE_CHARS: Final = 4_000
MAX_URL_CHARS: Final = 2_000
MAX_QUESTIONS: Final = 16
STATE_ONLY_RETRY_S: Final = 0.25
"""Seconds before a server is asked again that wants nothing but that."""


def parse_elicitation(params: Mapping[str, Any]) -> Question:
    """The question in a server's request.

    Raises:
        RpcFault: there is none that a person could be asked.
    """
    message = params.get("message")
    if not isinstance(message, str):
        raise RpcError(INVALID_PARAMS, "`message` is not text")
    shown = printable(message, MAX_MESSAGE_CHARS)
    mode = params.get("mode", "form")
    if mode == "form":
        schema: Any = params.get("requestedSchema")
        if not isinstance(schema, dict):
            raise RpcError(INVALID_PARAMS, "`requestedSchema` is not an object")
        return Question(shown, schema=cast("dict[str, Any]", schema))
    if mode == "url":
        return Question(shown, url=_checked_url(params.get("url")))
    raise RpcError(INVALID_PARAMS, "`mode` is neither form nor url")


def elicitation_result(question: Question, answer: QuestionAnswer) -> dict[str, Any]:
    """The answer as the server gets it."""
    if answer.action != "accept" or question.url is not None:
        return {"action": answer.action}
    return {"action": "accept", "content": dict(answer.content)}


def parse_input_required(sent: OutgoingMessage, raw: Any) -> InputRequired | None:
    """What a stateless server wants before it answers this request; None for an answer.

    Raises:
        RpcFault: it wants what it cannot have.
    """
    told = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if told.get("resultType") != "input_required":
        return None
    given: dict[str, Any] = {}
    asked: dict[str, Question] = {}
    for key, request in _input_requests(told):
        match request.get("method"):
            case "elicitation/create":
                params: Any = request.get("params")
                question = parse_elicitation(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
                asked[key] = replace(question, key=key)
            case "roots/list":
                given[key] = {"roots": []}
            case method:
                raise RpcError(METHOD_NOT_FOUND, f"it wants {printable(str(method), 80)}, which this host does not do")

    def again(answers: Sequence[QuestionAnswer]) -> OutgoingMessage:
        answered = {
            key: elicitation_result(question, answer)
            for (key, question), answer in zip(asked.items(), answers, strict=True)
        }
        params = {**sent.params, "inputResponses": {**given, **answered}}
        if "requestState" in told:
            params["requestState"] = told["requestState"]
        return OutgoingMessage(sent.method, params)

    return InputRequired(tuple(asked.values()), again, 0.0 if asked or given else STATE_ONLY_RETRY_S)


def _input_requests(told: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    requests: Any = told.get("inputRequests") or {}
    if not isinstance(requests, dict) or len(cast("dict[str, Any]", requests)) > MAX_QUESTIONS:
        raise RpcError(
            INVALID_PARAMS, f"it wants something that is not a handful of questions, at most {MAX_QUESTIONS}"
        )
    return [
        (key, cast("Mapping[str, Any]", request) if isinstance(request, dict) else {})
        for key, request in cast("dict[str, Any]", requests).items()
    ]


def _checked_url(url: Any) -> str:
    web = isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= MAX_URL_CHARS
    if not web or not url.isprintable() or " " in url:
        raise RpcError(INVALID_PARAMS, "`url` is not a web address")
    return url

"""Elicitation: parses a server's questions to a person and encodes the answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from paddock.core.printable import printable
from paddock.rpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from paddock.runtime.calls import Question, QuestionAnswer
from paddock.runtime.protocol_adapter import InputRequired, OutgoingMessage

ELICIT_METHOD: Final = "elicitation/create"
MAX_MESSAGE_CHARS: Final = 4_000
MAX_URL_CHARS: Final = 2_000
MAX_QUESTIONS: Final = 16
STATE_ONLY_RETRY_S: Final = 0.25
"""Pause before a retry that carries only the server's state and no answers."""


def parse_elicitation(params: Mapping[str, Any]) -> Question:
    """Parse the question in a server's request.

    Raises:
        RpcError: it is not a question that a person could answer.
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
    """Encode the answer for the server."""
    if answer.action != "accept" or question.url is not None:
        return {"action": answer.action}
    return {"action": "accept", "content": dict(answer.content)}


def parse_input_required(sent: OutgoingMessage, raw: Any) -> InputRequired | None:
    """Parse the input that a stateless server requires before it answers; None if `raw` is the answer.

    Raises:
        RpcError: it requires something that this host does not provide.
    """
    response = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if response.get("resultType") != "input_required":
        return None
    fixed_responses: dict[str, Any] = {}
    questions: dict[str, Question] = {}
    for key, request in _input_requests(response):
        match request.get("method"):
            case "elicitation/create":
                params: Any = request.get("params")
                question = parse_elicitation(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
                questions[key] = replace(question, key=key)
            case "roots/list":
                fixed_responses[key] = {"roots": []}
            case method:
                raise RpcError(METHOD_NOT_FOUND, f"it wants {printable(str(method), 80)}, which this host does not do")

    def build_retry(answers: Sequence[QuestionAnswer]) -> OutgoingMessage:
        answer_results = {
            key: elicitation_result(question, answer)
            for (key, question), answer in zip(questions.items(), answers, strict=True)
        }
        params = {**sent.params, "inputResponses": {**fixed_responses, **answer_results}}
        if "requestState" in response:
            params["requestState"] = response["requestState"]
        return OutgoingMessage(sent.method, params)

    return InputRequired(
        tuple(questions.values()), build_retry, 0.0 if questions or fixed_responses else STATE_ONLY_RETRY_S
    )


def _input_requests(response: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    requests: Any = response.get("inputRequests") or {}
    if not isinstance(requests, dict) or len(cast("dict[str, Any]", requests)) > MAX_QUESTIONS:
        raise RpcError(
            INVALID_PARAMS, f"it wants something that is not a handful of questions, at most {MAX_QUESTIONS}"
        )
    return [
        (key, cast("Mapping[str, Any]", request) if isinstance(request, dict) else {})
        for key, request in cast("dict[str, Any]", requests).items()
    ]


def _checked_url(url: Any) -> str:
    is_web_url = isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= MAX_URL_CHARS
    if not is_web_url or not url.isprintable() or " " in url:
        raise RpcError(INVALID_PARAMS, "`url` is not a web address")
    return url

"""Questions of a plugin to its caller: each stays open until it is answered, withdrawn, or its call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, TypedDict

import orjson

from paddock.core.errors import Conflict, Invalid, NotFound
from paddock.core.schema.compile import compile_schema
from paddock.runtime.calls import Question, QuestionAnswer

MAX_OPEN_QUESTIONS = 4  # of one call; further questions are answered with `cancel`
MAX_QUESTION_BYTES = 64 * 1024


class AskingCallJson(TypedDict):
    """The call that asks a question."""

    call_id: str
    plugin: str


class QuestionJson(AskingCallJson):
    """A question of a plugin during a call: to be answered as `schema` says, or at the `url`."""

    type: Literal["question"]
    id: str
    message: str
    url: NotRequired[str]
    schema: NotRequired[dict[str, Any]]


class OpenQuestions:
    """The open questions of one call.

    Args:
        asked_by: The call that asks, added to every question.
        publish: Receives an event for each question and an `answered` event for its end, without the content of the
            answer, which is private.
    """

    def __init__(self, asked_by: AskingCallJson, publish: Callable[[Mapping[str, Any]], None]) -> None:
        self._asked_by = asked_by
        self._tell = publish
        self._open: dict[str, tuple[Question, asyncio.Future[QuestionAnswer]]] = {}
        self._count = 0
        self._closed = False

    async def ask(self, question: Question) -> QuestionAnswer:
        """Publish a question and wait for its answer, which is `cancel` if too many are open or it is too large."""
        self._count += 1
        question_id = f"q{self._count}"
        question_data = self._question_json(question_id, question)
        if (
            self._closed
            or len(self._open) >= MAX_OPEN_QUESTIONS
            or len(orjson.dumps(question_data)) > MAX_QUESTION_BYTES
        ):
            return QuestionAnswer("cancel")
        future: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()
        self._open[question_id] = (question, future)
        self._tell(question_data)
        answer = QuestionAnswer("cancel")
        try:
            answer = await future
            return answer
        finally:
            self._open.pop(question_id, None)
            if not self._closed:
                self._tell({"type": "answered", "id": question_id, "action": answer.action})

    def answer(self, question_id: str, answer: QuestionAnswer) -> None:
        """Answer a question. It stays open if the answer is invalid.

        Raises:
            NotFound: there is no such question, or it is no longer open.
            Conflict: the call is over.
            Invalid: the content is not what the plugin asked for; carries every mistake.
        """
        if self._closed:
            raise Conflict("the call has ended, so its questions are closed", code="call.over")
        question, future = self._open.get(question_id, (None, None))
        if question is None or future is None or future.done():
            raise NotFound(
                f"no question {question_id!r} of this call is open",
                code="question.not_found",
                hint="it was answered or withdrawn; the call lists its open questions",
            )
        if answer.action == "accept" and question.schema is not None:
            problems = compile_schema(dict(question.schema)).errors(dict(answer.content))
            if problems:
                raise Invalid("the answer is not what the plugin asked for", problems, code="answer.invalid")
        future.set_result(answer)

    def close(self) -> None:
        """Cancel all open questions, since the call is over."""
        self._closed = True
        self._tell = _ignore_event
        for _, future in self._open.values():
            future.cancel()

    def to_json(self) -> list[QuestionJson]:
        """Return the open questions as JSON data."""
        return (
            []
            if self._closed
            else [self._question_json(question_id, question) for question_id, (question, _) in self._open.items()]
        )

    def _question_json(self, question_id: str, question: Question) -> QuestionJson:
        data: QuestionJson = {"type": "question", "id": question_id, **self._asked_by, "message": question.message}
        if question.url is not None:
            data["url"] = question.url
        elif question.schema is not None:
            data["schema"] = dict(question.schema)
        return data


def _ignore_event(event: Mapping[str, Any]) -> None:
    """Drop an event after the call is over."""

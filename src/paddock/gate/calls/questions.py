"""What plugins ask whoever made a call: each question is open until it is answered, taken back, or its call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from paddock.core.errors import Conflict, Invalid, NotFound
from paddock.core.schema.compile import compile_schema
from paddock.runtime.calls import Question, QuestionAnswer

MAX_OPEN_QUESTIONS = 4  # of one call; a plugin that asks more at once is told that nobody is there
MAX_QUESTION_BYTES = 64 * 1024  # bytes of a question


class OpenQuestions:
    """The questions of one call that wait for an answer.

    Args:
        about: What every question says of its call.
        tell: Hears of each question and, as `answered`, of its end. What was answered is nobody else's business.
    """

    def __init__(self, about: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._about = about
        self._tell = tell
        self._open: dict[str, tuple[Question, asyncio.Future[QuestionAnswer]]] = {}
        self._count = 0
        self._closed = False

    async def ask(self, question: Question) -> QuestionAnswer:
        """Keep a question open until somebody answers it. Cancelled where there is no room for it."""
        self._count += 1
        number = f"q{self._count}"
        shown = self._question_json(number, question)
        if self._closed or len(self._open) >= MAX_OPEN_QUESTIONS or len(orjson.dumps(shown)) > MAX_QUESTION_BYTES:
            return QuestionAnswer("cancel")
        waiting: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()
        self._open[number] = (question, waiting)
        self._tell(shown)
        answer = QuestionAnswer("cancel")
        try:
            answer = await waiting
            return answer
        finally:
            self._open.pop(number, None)
            if not self._closed:
                self._tell({"type": "answered", "id": number, "action": answer.action})

    def answer(self, number: str, answer: QuestionAnswer) -> None:
        """Answer a question. One whose answer does not fit stays open.

        Raises:
            NotFound: there is no such question, or it is not open any more.
            Conflict: the call is over.
            Invalid: the content is not what the plugin asked for; carries every mistake.
        """
        if self._closed:
            raise Conflict("the call is over, and its questions with it", code="call.over")
        question, waiting = self._open.get(number, (None, None))
        if question is None or waiting is None or waiting.done():
            raise NotFound(
                f"no question {number!r} of this call is open",
                code="question.not_found",
                hint="it was answered, or taken back; the call lists those that are open",
            )
        if answer.action == "accept" and question.schema is not None:
            problems = compile_schema(dict(question.schema)).errors(dict(answer.content))
            if problems:
                raise Invalid("the answer is not what the plugin asked for", problems, code="answer.invalid")
        waiting.set_result(answer)

    def close(self) -> None:
        """The call is over: nobody waits for answers any more."""
        self._closed = True
        self._tell = _ignore_event
        for _, waiting in self._open.values():
            waiting.cancel()

    def to_json(self) -> list[dict[str, Any]]:
        """Those that are open."""
        return (
            []
            if self._closed
            else [self._question_json(number, question) for number, (question, _) in self._open.items()]
        )

    def _question_json(self, number: str, question: Question) -> dict[str, Any]:
        shown: dict[str, Any] = {"type": "question", "id": number, **self._about, "message": question.message}
        if question.url is not None:
            shown["url"] = question.url
        elif question.schema is not None:
            shown["schema"] = dict(question.schema)
        return shown


def _ignore_event(event: Mapping[str, Any]) -> None:
    """Nobody hears of it any more."""

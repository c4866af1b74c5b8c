"""What plugins ask whoever made a call: each question is open until it is answered, taken back, or its call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from paddock.core.errors import Conflict, Invalid, NotFound
from paddock.core.schema import compile_schema
from paddock.plugins.supervision.questions import Answer, Question

MOST_OPEN = 4  # of one call; a plugin that asks more at once is told that nobody is there
LARGEST = 64 * 1024  # bytes of a question


class OpenQuestions:
    """The questions of one call that wait for an answer.

    Args:
        about: What every question says of its call.
        tell: Hears of each question and, as `answered`, of its end. What was answered is nobody else's business.
    """

    def __init__(self, about: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._about = about
        self._tell = tell
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}
        self._count = 0
        self._closed = False

    async def put(self, question: Question) -> Answer:
        """Keep a question open until somebody answers it. Cancelled where there is no room for it."""
        self._count += 1
        number = f"q{self._count}"
        shown = self._shown(number, question)
        if self._closed or len(self._open) >= MOST_OPEN or len(orjson.dumps(shown)) > LARGEST:
            return Answer("cancel")
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[number] = (question, waiting)
        self._tell(shown)
        answer = Answer("cancel")
        try:
            answer = await waiting
            return answer
        finally:
            self._open.pop(number, None)
            if not self._closed:
                self._tell({"type": "answered", "id": number, "action": answer.action})

    def answer(self, number: str, answer: Answer) -> None:
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
        self._tell = _nobody
        for _, waiting in self._open.values():
            waiting.cancel()

    def to_json(self) -> list[dict[str, Any]]:
        """Those that are open."""
        return [] if self._closed else [self._shown(number, question) for number, (question, _) in self._open.items()]

    def _shown(self, number: str, question: Question) -> dict[str, Any]:
        shown: dict[str, Any] = {"type": "question", "id": number, **self._about, "message": question.message}
        if question.url is not None:
            shown["url"] = question.url
        elif question.schema is not None:
            shown["schema"] = dict(question.schema)
        return shown


def _nobody(event: Mapping[str, Any]) -> None:
    """Nobody hears of it any more."""

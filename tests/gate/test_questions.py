"""Questions of a call: few at a time, and none of them outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from paddock.core.errors import Conflict
from paddock.gate.calls.questions import MAX_OPEN_QUESTIONS, AskingCallJson, OpenQuestions
from paddock.runtime.calls import Question, QuestionAnswer

ASKING: AskingCallJson = {"call_id": "call_1", "plugin": "nosy"}


async def test_a_plugin_that_asks_too_much_at_once_is_told_that_nobody_is_there() -> None:
    told: list[Mapping[str, Any]] = []
    questions = OpenQuestions(ASKING, told.append)
    waiting = [asyncio.ensure_future(questions.ask(Question(f"{number}?"))) for number in range(MAX_OPEN_QUESTIONS)]
    await asyncio.sleep(0)

    assert await questions.ask(Question("and?")) == QuestionAnswer("cancel")
    assert [one["message"] for one in told] == [f"{number}?" for number in range(MAX_OPEN_QUESTIONS)]
    for one in questions.to_json():
        questions.answer(one["id"], QuestionAnswer("decline"))
    assert [await one for one in waiting] == [QuestionAnswer("decline")] * MAX_OPEN_QUESTIONS
    assert questions.to_json() == []


async def test_when_the_call_ends_so_does_what_its_plugin_wanted_to_know() -> None:
    told: list[Mapping[str, Any]] = []
    questions = OpenQuestions(ASKING, told.append)
    waiting = asyncio.ensure_future(questions.ask(Question("Well?")))
    await asyncio.sleep(0)
    questions.close()

    await asyncio.wait({waiting})
    assert waiting.cancelled() and questions.to_json() == [] and len(told) == 1
    with pytest.raises(Conflict, match="the call has ended"):
        questions.answer("q1", QuestionAnswer("accept"))
    assert await questions.ask(Question("Still?")) == QuestionAnswer("cancel")

"""Putting a plugin's question to whoever makes its call, and seeing that the answer fits."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from paddock.core.errors import Invalid
from paddock.core.questions import Answer as Answer
from paddock.core.questions import Ask as Ask
from paddock.core.questions import Question as Question
from paddock.core.schema import compile_schema

PATIENCE = 900.0
"""Seconds that a question may wait for its answer; meanwhile the call's own time stands still."""

TRIES = 3
"""How often a question is put when its answers do not fit."""


async def answer_to(question: Question, ask: Ask | None) -> Answer:
    """The answer to a question, checked against what the plugin asked for; put again where it does not fit.

    Declined where there is nobody to ask. Cancelled where the question makes no sense, or nobody answered in time.
    """
    if ask is None:
        return Answer("decline")
    try:
        async with asyncio.timeout(PATIENCE):
            return await _fitting_answer(question, ask)
    except Exception:
        # The plugin did nothing wrong when its question could not be put, and its call goes on.
        return Answer("cancel")


async def _fitting_answer(question: Question, ask: Ask) -> Answer:
    try:
        wanted = compile_schema(dict(question.schema)) if question.schema is not None else None
    except Invalid:
        return Answer("cancel")
    for _ in range(TRIES):
        answer = await ask(question)
        if answer.action != "accept":
            return Answer(answer.action)
        problems = wanted.errors(dict(answer.content)) if wanted is not None else []
        if not problems:
            return answer
        question = replace(question, problems=tuple(problems))
    return Answer("cancel")

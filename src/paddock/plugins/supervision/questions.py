"""What a plugin asks the person behind a call while it works on it, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from paddock.core.errors import Invalid, Problem
from paddock.core.schema import compile_schema

PATIENCE = 900.0
"""Seconds that a question may wait for its answer; meanwhile the call's own time stands still."""

TRIES = 3
"""How often a question is put when its answers do not fit."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a plugin wants to know, or a page it wants a person to visit.

    Every word of it is the plugin's: whoever shows it says who asks, and shows it as text.
    """

    message: str
    kind: str = "elicitation"
    schema: Mapping[str, Any] | None = None  # what the answer's content has to look like
    url: str | None = None  # a page to visit; what happens there is between the person and the page
    problems: tuple[Problem, ...] = ()  # what was wrong with the last answer


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person did: agreed, said no, or went away."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # may be private


# Puts a question to whoever makes the call.
Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]


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

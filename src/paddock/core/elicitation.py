"""What a plugin asks the person behind a call while it works on it, and what they answer. Plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from paddock.core.errors import Problem


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
    key: str = ""  # what the plugin itself calls it, where it does


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What the person did: agreed, said no, or went away."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # may be private


# Puts a question to whoever makes the call.
AskCaller: TypeAlias = Callable[[Question], Awaitable[QuestionAnswer]]

"""Elicitation: what a plugin asks the person behind a call while it runs, and the answer. Plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from paddock.core.errors import Problem


class Question(Struct, frozen=True):
    """A question of a plugin, or a page it wants a person to visit.

    All of its text is the plugin's: the user interface says who asks, and shows it as plain text.
    """

    message: str
    kind: str = "elicitation"
    schema: Mapping[str, Any] | None = None  # JSON Schema of the answer's content
    url: str | None = None  # a page to visit; what happens there is between the person and the page
    problems: tuple[Problem, ...] = ()  # what was wrong with the last answer
    key: str = ""  # the plugin's own id for it, if any


@dataclasses.dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What the person did: accepted, declined, or cancelled."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any], repr=False)  # may be private


# Puts a question to the caller.
AskCaller: TypeAlias = Callable[[Question], Awaitable[QuestionAnswer]]

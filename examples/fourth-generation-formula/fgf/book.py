"""The book: its questions in order, a writer's progress through them, and the manuscript at the end.

Progress is a value. Whoever keeps it (see `tools`), this file only moves it on.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from fgf.levels import LEVELS

QUESTIONS = tuple(question for level in LEVELS for question in level.questions)
LONGEST_ANSWER = 20_000


class Progress(NamedTuple):
    """The answers so far; the next question is the one after the last answer."""

    workflow_id: str
    answers: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return len(self.answers) == len(QUESTIONS)

    @property
    def question(self) -> str | None:
        return None if self.complete else QUESTIONS[len(self.answers)]

    def answered(self, answer: str) -> Progress:
        """One answer further.

        Raises:
            ValueError: it is empty or too long, or everything has been answered.
        """
        if self.complete:
            raise ValueError("every question has been answered; generate the manuscript")
        if not answer.strip() or len(answer) > LONGEST_ANSWER:
            raise ValueError(f"an answer has 1 to {LONGEST_ANSWER} characters")
        return self._replace(answers=(*self.answers, answer))

    def to_value(self) -> dict[str, Any]:
        """The workflow state as the host keeps it."""
        return {
            "workflow_id": self.workflow_id,
            "current_step": len(self.answers),
            "total_steps": len(QUESTIONS),
            "accumulated_data": {f"q{number}": answer for number, answer in enumerate(self.answers, start=1)},
            "completed": self.complete,
        }


def progress_from(workflow_id: str, value: Any) -> Progress:
    """The progress that `to_value` gave.

    Raises:
        ValueError: it is not such a value, or belongs to another workflow.
    """
    state = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    data: Any = state.get("accumulated_data")
    if state.get("workflow_id") != workflow_id or not isinstance(data, dict):
        raise ValueError("the workflow state that came along is not of this workflow")
    kept = cast("dict[str, Any]", data)
    answers = tuple(kept.get(f"q{number}") for number in range(1, len(kept) + 1))
    if len(answers) > len(QUESTIONS) or not all(isinstance(answer, str) for answer in answers):
        raise ValueError("the workflow state that came along has answers to no question of ours")
    return Progress(workflow_id, cast("tuple[str, ...]", answers))


def manuscript(progress: Progress) -> str:
    """The whole book as Markdown, a chapter for each level.

    Raises:
        ValueError: there are questions left.
    """
    left = len(QUESTIONS) - len(progress.answers)
    if left:
        raise ValueError(f"{left} of {len(QUESTIONS)} questions have no answer yet")
    lines = ["# A Builder's Book", ""]
    answers = iter(progress.answers)
    for number, level in enumerate(LEVELS, start=1):
        lines += [f"## Chapter {number}: {level.name}", ""]
        for question in level.questions:
            lines += [f"*{question}*", "", next(answers).strip(), ""]
    return "\n".join(lines)

"""The letter itself: templates filled from a draft. The same draft always gives the same letter."""

from __future__ import annotations

from email_draft.payload import Draft

GREETING = {"formal": "Dear Professor {name},", "friendly": "Hello Professor {name},"}
CLOSING = {"formal": "Yours sincerely,", "friendly": "Many thanks and best wishes,"}


def subject(draft: Draft) -> str:
    return f"Graduate funding in {_one_line(draft.topic or draft.field)}: {_one_line(draft.student)}"


def body(draft: Draft) -> str:
    paragraphs = [
        GREETING[draft.tone].format(name=_one_line(draft.professor)),
        _opening(draft),
        *_highlights(draft),
        "Would you have a place with funding in your group next year, or could you name somebody who has?",
        f"{CLOSING[draft.tone]}\n{_one_line(draft.student)}",
    ]
    return "\n\n".join(paragraphs) + "\n"


def _opening(draft: Draft) -> str:
    opening = f"my name is {_one_line(draft.student)} and I work in {_one_line(draft.field)}."
    if draft.topic:
        opening += f" Your research on {_one_line(draft.topic)} is the reason why I write to you."
    return opening[0].upper() + opening[1:]


def _highlights(draft: Draft) -> list[str]:
    """A short letter has the first highlight only; a medium one lists them all."""
    lines = [_one_line(text) for text in draft.highlights]
    if not lines:
        return []
    if draft.length == "short":
        return [f"One thing about my work so far: {lines[0].rstrip('.')}."]
    return ["What I have done so far:\n" + "\n".join(f"- {line}" for line in lines)]


def _one_line(text: str) -> str:
    """A line break in a name must not become a header or a paragraph of the letter."""
    return " ".join(text.split())

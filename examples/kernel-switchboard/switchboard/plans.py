"""Which intent leads to which steps. A table, so that a new intent is a new line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NOTHING: Mapping[str, str] = MappingProxyType({})


class Step(NamedTuple):
    """One action of a plan; a gate stops the plan until a person says yes."""

    action: str
    gate: str = "none"
    takes: Mapping[str, str] = NOTHING  # payload field -> place in the context; the step is left out without it


class Plan(NamedTuple):
    """What to do for one intent, and what the agent needs to know for it."""

    why: str
    needs: tuple[str, ...]
    steps: tuple[Step, ...]
    question: str


PLANS = {
    "Funding.Outreach.Email.Generate": Plan(
        "An outreach email is wanted: first what the professor works on, then a draft that a person applies.",
        ("student.profile", "professor.entity"),
        (
            Step("Document.Process", takes={"document_id": "documents.cv.id"}),
            Step("Professor.Summarize", takes={"professor_id": "professor.entity.id"}),
            Step("Email.GenerateDraft", "human_apply"),
        ),
        "Should the email be short or of medium length?",
    ),
    "Funding.Outreach.Email.Review": Plan(
        "A draft is there and somebody wants it looked over.",
        ("student.profile", "professor.entity", "draft.body"),
        (Step("Email.ReviewDraft", "human_apply"),),
        "Is there a sentence in the draft that you are unsure about?",
    ),
}

"""The nine levels: what each one is, the statements that measure it, and the questions that tell its story."""

from __future__ import annotations

from typing import NamedTuple


class Level(NamedTuple):
    """One step on the way from a business that needs you to a family that does not."""

    name: str
    statements: tuple[str, str]  # answered 1 (not at all) to 5 (fully)
    questions: tuple[str, str]  # a chapter of the book
    next_step: str


LEVELS = (
    Level(
        "Origin",
        ("My family knows why I started.", "I have told the hard parts of the story, not only the good ones."),
        ("What did your life look like the year before you began?", "Which moment made you begin?"),
        "Tell one person of the next generation how it began, and record it.",
    ),
    Level(
        "Values",
        ("I can name the three values I never traded.", "My children would name the same three."),
        ("Which value cost you the most to keep?", "Who taught it to you, and how?"),
        "Ask each family member for your three values and compare the lists.",
    ),
    Level(
        "Principles",
        ("The rules I decide by are written down.", "Others decide by them when I am away."),
        ("Which rule do you decide by most often?", "When did you break it, and what happened?"),
        "Write down the rule behind your last five decisions.",
    ),
    Level(
        "Systems",
        ("The business runs for a month without me.", "What only I know is documented."),
        ("What did you have to stop doing yourself?", "What broke when you first stepped away?"),
        "Stay away for a week and list every question that had to reach you.",
    ),
    Level(
        "Skills",
        ("Successors have worked outside our business.", "Each has a plan for what to learn next."),
        ("How did you learn what school did not teach you?", "What must a successor be able to do on the first day?"),
        "Agree with each successor on one skill and who teaches it.",
    ),
    Level(
        "Voice",
        (
            "The next generation has a vote that has already changed a decision.",
            "We can disagree and still eat together.",
        ),
        ("Tell of a time when somebody younger was right.", "How does your family settle an argument?"),
        "Put one real decision of this quarter to a family vote.",
    ),
    Level(
        "Stewardship",
        (
            "Ownership and wages are kept apart in our family.",
            "Heirs know what wealth is for before they know how much.",
        ),
        ("What was money for in the house you grew up in?", "What should it never be used for?"),
        "Write one page on what the family's money is for, and read it aloud together.",
    ),
    Level(
        "Authority",
        ("The date when I hand over is known.", "A successor has already overruled me, and it stood."),
        ("What will be hardest to let go of?", "What would you say in your last meeting?"),
        "Choose a date for handing over one whole area, and announce it.",
    ),
    Level(
        "Builders",
        ("Those I trained are training others.", "What we built could start again from nothing."),
        ("Who did you build besides the business?", "What do you want the fourth generation to know about you?"),
        "Ask a successor to teach this framework to somebody younger.",
    ),
)

"""How ready somebody is to hand over: two statements a level, and the first level that does not hold yet."""

from __future__ import annotations

from typing import Any, NamedTuple

from fgf.levels import LEVELS

HOLDS = 3.5  # the average from which a level counts as reached
EXPECTED = sum(len(level.statements) for level in LEVELS)


class Readiness(NamedTuple):
    """The result: each level's average, how many levels in a row hold, and what to do next."""

    averages: tuple[float, ...]
    reached: int
    next_step: str


def assess(responses: list[Any]) -> Readiness:
    """Judge one answer from 1 to 5 for each statement, in the order of the levels.

    Raises:
        ValueError: there are too few or too many, or one is no number from 1 to 5.
    """
    if len(responses) != EXPECTED:
        raise ValueError(f"{EXPECTED} answers are needed, two for each of the nine levels; there are {len(responses)}")
    for number, answer in enumerate(responses, start=1):
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not 1 <= answer <= 5:
            raise ValueError(f"answer {number} is no number from 1 to 5")
    averages = tuple((responses[i] + responses[i + 1]) / 2 for i in range(0, EXPECTED, 2))
    # In a row, because a level stands on the ones below it.
    reached = next((index for index, average in enumerate(averages) if average < HOLDS), len(LEVELS))
    next_step = LEVELS[reached].next_step if reached < len(LEVELS) else "Every level holds. Begin to teach it."
    return Readiness(averages, reached, next_step)

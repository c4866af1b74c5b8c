"""Warnings about a manifest that are for its author: a person who consents can do nothing about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from paddock.core.errors import Problem

AUTHOR_LINT_CODES: Final = frozenset(
    {
        "capability_broad",  # to a person it is a danger that they accept, or do not
        "capability_twice",
        "effects_missing",
        "knob_type_mismatch",
        "name_shadows_built_in",
        "no_description",
        "no_topics",
        "secrets_not_asked",
        "unknown_field",
        "unknown_operation",
        "unlisted_secret",
        "version",
    }
)


def without_author_lint(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the warnings that concern a person who consents. `paddock plugin check` shows all of them."""
    return tuple(problem for problem in problems if problem.code not in AUTHOR_LINT_CODES)

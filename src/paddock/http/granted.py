"""What a body says yes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.errors import Invalid, Problem
from paddock.manifest.capability import BadCapability, Capability, parse


def granted_in(body: Mapping[str, Any]) -> list[Capability]:
    """The capabilities that a body names in `grant`.

    Raises:
        Invalid: some are none; carries every mistake.
    """
    found: list[Capability] = []
    problems: list[Problem] = []
    for index, text in enumerate(body.get("grant", [])):
        try:
            found.append(parse(text))
        except BadCapability as error:
            problems.append(Problem(f"grant[{index}]", error.message, error.hint, "capability.malformed"))
    if problems:
        raise Invalid("the body is not valid", problems, code="invalid_params")
    return found

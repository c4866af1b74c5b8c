"""What a body says yes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.approvals.answer import REACHES, SCOPES, RememberChoice
from paddock.core.errors import Invalid, Problem
from paddock.manifest.capability import Capability, InvalidCapability, parse_capability


def parse_grants(body: Mapping[str, Any]) -> list[Capability]:
    """The capabilities that a body names in `grant`.

    Raises:
        Invalid: some are none; carries every mistake.
    """
    found: list[Capability] = []
    problems: list[Problem] = []
    for index, text in enumerate(body.get("grant", [])):
        try:
            found.append(parse_capability(text))
        except InvalidCapability as error:
            problems.append(Problem(f"grant[{index}]", error.message, error.hint, "capability.malformed"))
    if problems:
        raise Invalid("the body is not valid", problems, code="invalid_params")
    return found


def parse_remember(body: dict[str, Any]) -> RememberChoice:
    """How far a yes is to last, as a body says it.

    Raises:
        Invalid: it says something else.
    """
    scope, reach = body.get("scope", "once"), body.get("reach", "tool")
    problems = [
        Problem(name, "says none of what can be said", f"give {', '.join(words)}", "wrong_value")
        for name, said, words in (("scope", scope, SCOPES), ("reach", reach, REACHES))
        if said not in words
    ]
    if (scope, reach) == ("once", "plugin"):
        hint = "give a scope of session or always, or leave the reach out"
        problems.append(
            Problem("reach", "says how far a yes goes that lasts, and this one is for once", hint, "wrong_value")
        )
    if problems:
        raise Invalid("the body is not valid", problems, code="invalid_params")
    return RememberChoice(scope, reach)

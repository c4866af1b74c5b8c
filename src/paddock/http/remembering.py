"""For how long a yes is to last, as somebody says it."""

from __future__ import annotations

from typing import Any

from paddock.core.errors import Invalid, Problem
from paddock.policy.approvals.answering import REACHES, SCOPES, Remember


def remembered(body: dict[str, Any]) -> Remember:
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
    return Remember(scope, reach)

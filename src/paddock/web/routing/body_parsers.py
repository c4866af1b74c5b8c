"""Parsers for body fields that several routes share: granted capabilities and how long an approval lasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.approvals.answer import REACHES, SCOPES, RememberChoice
from paddock.core.call import Principal
from paddock.core.errors import Invalid, Problem
from paddock.host.identity.caller import require_interactive_person
from paddock.manifest.capability import Capability, InvalidCapability, parse_capability

MAX_GRANTS = 200  # in one request


def parse_own_grants(body: Mapping[str, Any], principal: Principal) -> list[Capability]:
    """Parse the capabilities that the caller grants by this request.

    Raises:
        Invalid: some are malformed; lists every problem.
        Denied: there are some, and the caller is a program: consent is given by people.
    """
    grants = parse_grants(body)
    if grants:
        require_interactive_person(principal)
    return grants


def parse_grants(body: Mapping[str, Any], member: str = "grant") -> list[Capability]:
    """Parse the capabilities in a member of the body.

    Raises:
        Invalid: some are malformed; lists every problem.
    """
    capabilities: list[Capability] = []
    problems: list[Problem] = []
    for index, text in enumerate(body.get(member, [])):
        try:
            capabilities.append(parse_capability(text))
        except InvalidCapability as error:
            problems.append(Problem(f"{member}[{index}]", error.message, error.hint, "capability.malformed"))
    if problems:
        raise Invalid("the body is not valid", problems, code="invalid_params")
    return capabilities


def parse_remember(body: Mapping[str, Any]) -> RememberChoice | None:
    """Parse `scope` and `reach`: how long and how far an approval is remembered; None if the body leaves that open.

    Raises:
        Invalid: a value is unknown, or both do not go together.
    """
    scope, reach = body.get("scope", "once"), body.get("reach", "tool")
    problems = [
        Problem(name, "says none of what can be said", f"give {', '.join(choices)}", "wrong_value")
        for name, value, choices in (("scope", scope, SCOPES), ("reach", reach, REACHES))
        if value not in choices
    ]
    if scope == "once" and reach == "plugin":
        hint = "give a scope of session or always, or leave the reach out"
        problems.append(
            Problem("reach", "is for a standing approval, and this one is for one call", hint, "wrong_value")
        )
    if problems:
        raise Invalid("the body is not valid", problems, code="invalid_params")
    return RememberChoice(scope, reach) if "scope" in body else None

"""Rules for names of tenants, people, groups, roles and scopes: they appear in URLs, rules and records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from paddock.core.errors import OperatorError, Problem
from paddock.core.printable import printable

NameKind = Literal["tenant", "person", "group", "role", "scope"]

ROLES: Final[Mapping[str, str]] = {
    "operator": "operates this host, and has every scope",
    "approver": "answers requests that wait for a person",
    "member": "uses plugins",
    "guest": "uses plugins that only read",
}
"""The roles that the shipped rules know. Custom rules may use others."""

MAX_DISPLAY_NAME_CHARS: Final = 200

_WORD = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
_RULES: Mapping[NameKind, tuple[re.Pattern[str], str]] = {
    "tenant": (
        re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"),
        "use 1 to 63 small letters, digits and hyphens, as in acme-labs",
    ),
    "person": (
        re.compile(r"[a-z0-9](?:[a-z0-9._@+-]{0,126}[a-z0-9])?"),
        "use up to 128 small letters, digits and . _ @ + -, as in ann or ann@example.org",
    ),
    "group": (_WORD, "use 1 to 63 small letters, digits and . _ -, as in night-shift"),
    "role": (
        _WORD,
        f"the shipped rules know {', '.join(ROLES)}; a role of your own has small letters, digits and . _ -",
    ),
    "scope": (re.compile(r"[!-+\--~]{1,128}"), "use up to 128 characters without spaces and commas, as in email:send"),
}


def validate_name(kind: NameKind, name: str) -> str:
    """Return the name if it is valid.

    Raises:
        OperatorError: it is invalid; the hint describes valid names.
    """
    rule, hint = _RULES[kind]
    if rule.fullmatch(name) is None:
        raise OperatorError(f"no {kind} can be called {printable(name, 80)!r}", code="principal.bad_name", hint=hint)
    return name


def validate_display_name(name: str) -> str:
    """Return a display name if it is short enough.

    Raises:
        OperatorError: it is too long.
    """
    if len(name) > MAX_DISPLAY_NAME_CHARS:
        raise OperatorError(
            f"the display name is longer than {MAX_DISPLAY_NAME_CHARS} characters", code="principal.bad_name"
        )
    return name


def validate_names(kind: NameKind, names: Iterable[str]) -> frozenset[str]:
    """Validate several names; see `validate_name`."""
    return frozenset(validate_name(kind, name) for name in names)


def name_problems(kind: NameKind, names: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each invalid name, by the path where it was written."""
    problems: list[Problem] = []
    for path, name in names.items():
        try:
            validate_name(kind, name)
        except OperatorError as error:
            problems.append(error.as_problem(path))
    return problems

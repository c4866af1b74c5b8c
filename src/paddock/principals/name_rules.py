"""What tenants, people, groups, roles and scopes may be called. They stand in addresses, rules and records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from paddock.core.errors import OperatorError
from paddock.core.printable import printable

NameKind = Literal["tenant", "person", "group", "role", "scope"]

ROLES: Final[Mapping[str, str]] = {
    "operator": "operates this host, and has every scope",
    "approver": "answers requests that wait for a person",
    "member": "uses plugins",
    "guest": "uses plugins that only read",
}
"""The roles that the shipped rules know. Others are free to use in rules of your own."""

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


def validate_name(what: NameKind, name: str) -> str:
    """The name, where it can be one.

    Raises:
        OperatorError: it cannot, and how one looks.
    """
    rule, hint = _RULES[what]
    if rule.fullmatch(name) is None:
        raise OperatorError(f"no {what} can be called {printable(name, 80)!r}", code="principal.bad_name", hint=hint)
    return name


def validate_names(what: NameKind, names: Iterable[str]) -> frozenset[str]:
    """Several at once; see `checked`."""
    return frozenset(validate_name(what, name) for name in names)

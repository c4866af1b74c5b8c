"""Substitutes `${VAR}` in strings of our own files from the environment when a file is loaded.

Where the host has secrets, `${secret:NAME}` is one of them. `$${` stands for a plain `${`. The value of a variable is
never part of a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from paddock.core.action import Action
from paddock.core.errors import Problem
from paddock.core.secret import SECRET_NAME_PATTERN

SECRET_PREFIX = "secret:"  # noqa: S105 - how a name begins, and no password
"""The prefix that marks a secret among variable names, which cannot contain a colon."""
SECRET_UNSET = "config.secret_unset"  # noqa: S105 - an error code
VARIABLE_UNSET = "config.variable_unset"
"""The codes of a secret and of a variable that is not set; the second is also that of the configuration as a whole."""

_REFERENCE = re.compile(rf"\$\$\{{|\$\{{([A-Za-z_][A-Za-z0-9_]*|secret:{SECRET_NAME_PATTERN})\}}|\$\{{")


def has_reference(text: str) -> bool:
    """Whether the text takes anything from the environment."""
    return any(match.group() != "$${" for match in _REFERENCE.finditer(text))


def referenced_secrets(value: Any) -> set[str]:
    """The names of the secrets that a value refers to, at any depth."""
    if isinstance(value, str):
        names = (match.group(1) for match in _REFERENCE.finditer(value))
        return {
            name.removeprefix(SECRET_PREFIX) for name in names if name is not None and name.startswith(SECRET_PREFIX)
        }
    if isinstance(value, dict):
        return set[str]().union(*map(referenced_secrets, cast("dict[str, Any]", value).values()))
    if isinstance(value, list):
        return set[str]().union(*map(referenced_secrets, cast("Sequence[Any]", value)))
    return set()


def unescape(text: str) -> str:
    """The meaning of a text without references."""
    return text.replace("$${", "${")


def is_reference(text: str) -> bool:
    """Whether the text is one whole reference and nothing else."""
    match = _REFERENCE.fullmatch(text)
    return match is not None and match.group(1) is not None


def substitute(
    value: Any, environ: Mapping[str, str], path: str, problems: list[Problem], line: int | None = None
) -> Any:
    """Substitute every reference in a value, at any depth; each mistake is added to `problems`."""
    if isinstance(value, str):
        return _substitute_text(value, environ, path, problems, line)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: substitute(part, environ, f"{path}.{key}", problems, line) for key, part in table.items()}
    if isinstance(value, list):
        parts = cast("Sequence[Any]", value)
        return [substitute(part, environ, f"{path}[{index}]", problems, line) for index, part in enumerate(parts)]
    return value


def _substitute_text(
    text: str, environ: Mapping[str, str], path: str, problems: list[Problem], line: int | None
) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name: str | None = match.group(1)
        value = environ.get(name) if name is not None else None
        if value is None:
            problems.append(_reference_problem(name, path, line))
        return value or ""

    return _REFERENCE.sub(replacement, text)


def _reference_problem(name: str | None, path: str, line: int | None) -> Problem:
    if name is None:
        hint = "write ${NAME}, or $${ for a plain ${"
        return Problem(path, "`${` without a variable name", hint, "config.reference", line)
    if name.startswith(SECRET_PREFIX):
        secret = name.removeprefix(SECRET_PREFIX)
        action = Action.of("secret.set", name=secret)
        return Problem(path, f"the secret {secret} is not set", "", SECRET_UNSET, line, action)
    hint = f"export {name}=…"
    return Problem(path, f"the environment variable {name} is not set", hint, VARIABLE_UNSET, line)

"""`${VAR}` inside strings of our own files: filled from the environment when a file is loaded.

`$${` stands for a plain `${`. What a variable held is never part of a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from paddock.core.errors import Problem

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


def has_reference(text: str) -> bool:
    """Whether the text takes anything from the environment."""
    return any(match.group() != "$${" for match in _REFERENCE.finditer(text))


def fill(value: Any, environ: Mapping[str, str], path: str, problems: list[Problem], line: int | None = None) -> Any:
    """The value with every reference in it filled, at any depth; each mistake is added to `problems`."""
    if isinstance(value, str):
        return _fill_text(value, environ, path, problems, line)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: fill(part, environ, f"{path}.{key}", problems, line) for key, part in table.items()}
    if isinstance(value, list):
        parts = cast("Sequence[Any]", value)
        return [fill(part, environ, f"{path}[{index}]", problems, line) for index, part in enumerate(parts)]
    return value


def _fill_text(text: str, environ: Mapping[str, str], path: str, problems: list[Problem], line: int | None) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name = match.group(1)
        if name is None:
            problems.append(
                Problem(
                    path,
                    "`${` without a variable name",
                    "write ${NAME}, or $${ for a plain ${",
                    "config.reference",
                    line,
                )
            )
        elif name not in environ:
            problems.append(
                Problem(
                    path,
                    f"the environment variable {name} is not set",
                    f"export {name}=…",
                    "config.variable_unset",
                    line,
                )
            )
        return environ.get(name or "", "")

    return _REFERENCE.sub(replacement, text)

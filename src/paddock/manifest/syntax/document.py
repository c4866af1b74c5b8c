"""A parsed file: plain values, and the line of each.

The values hold only dict, list, str, int, float, bool and None, are at most 64 levels deep, and bounded in number.
`parse.py` creates documents from untrusted bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import join_path

MAX_FILE_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 50_000
MAX_DIGITS = 19

ValuePath: TypeAlias = tuple[str | int, ...]
LineNumbers: TypeAlias = Mapping[ValuePath, int]


class FileLimits(Struct, frozen=True):
    """How large a file may be."""

    max_bytes: int = MAX_FILE_BYTES
    max_values: int = MAX_VALUES


MANIFEST_LIMITS = FileLimits()
# Settings of other programs have much besides servers in them.
SETTINGS_LIMITS = FileLimits(8 * 1024 * 1024, 400_000)


def no_lines() -> LineNumbers:
    """Return no line numbers, for values that were never text."""
    return {}


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A parsed file: its values, and a function that finds the line of each path."""

    name: str
    value: Any
    find_lines: Callable[[], LineNumbers] = dataclasses.field(default=no_lines, repr=False, compare=False)

    @property
    def lines(self) -> LineNumbers:
        return self.find_lines()

    def line_of(self, path: ValuePath) -> int | None:
        """Return the line of a path, or of its nearest ancestor that has one."""
        lines = self.lines
        while path:
            if path in lines:
                return lines[path]
            path = path[:-1]
        return lines.get(())

    def with_lines(self, problems: list[Problem]) -> list[Problem]:
        """Add line numbers to problems that have none."""
        if all(problem.line is not None for problem in problems):
            return problems
        by_text = {join_path(path): line for path, line in self.lines.items()}
        return [
            problem if problem.line is not None else replace(problem, line=_nearest_line(by_text, problem.path))
            for problem in problems
        ]


def _nearest_line(lines: Mapping[str, int], path: str) -> int | None:
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def invalid_file_error(
    name: str, message: str, *, hint: str = "", line: int | None = None, path: str = "", code: str
) -> Invalid:
    """Return the error for a file that cannot be read at all; control characters are escaped."""
    problem = Problem(path, printable(message, 300), hint, code, line)
    return Invalid(f"{printable(name)} cannot be read", [problem], code="manifest.unreadable")


def check_size(name: str, value: Any, max_values: int = MAX_VALUES) -> None:
    """Refuse values that are nested too deeply or are too many.

    Raises:
        Invalid: they are.
    """
    count = 0
    layer: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        next_layer: list[Any] = []
        for item in layer:
            count += 1
            if isinstance(item, dict):
                next_layer.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                next_layer.extend(cast("list[Any]", item))
        if count > max_values:
            raise invalid_file_error(name, f"holds more than {max_values:,} values", code="too_many_values")
        if not next_layer:
            return
        layer = next_layer
    raise too_deep_error(name)


def too_deep_error(name: str, line: int | None = None) -> Invalid:
    return invalid_file_error(name, f"is nested deeper than {MAX_DEPTH} levels", line=line, code="too_deep")


def duplicate_key_error(name: str, key: str, path: str, line: int | None) -> Invalid:
    return invalid_file_error(
        name, f"the key {key[:80]!r} stands twice", hint="keep one of them", line=line, path=path, code="duplicate_key"
    )

"""Collects all problems of a document, and reads its fields leniently so that every rule can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from paddock.core.errors import Problem
from paddock.core.schema.compile import join_path
from paddock.manifest.syntax.document import ParsedDocument, ValuePath

MAX_PROBLEMS = 100
# Per list or mapping. No more than these are read, and `check_entry_count` refuses a document that has more.
MAX_ENTRIES = 2000


class ProblemReport:
    """The errors and warnings found so far in one document."""

    def __init__(self, document: ParsedDocument) -> None:
        self._document = document
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def error(self, path: ValuePath, message: str, hint: str = "", code: str = "invalid") -> None:
        if len(self.errors) < MAX_PROBLEMS:
            self.errors.append(self._problem(path, message, hint, code))

    def warn(self, path: ValuePath, message: str, hint: str = "", code: str = "warning") -> None:
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(self._problem(path, message, hint, code))

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems that another check has already described."""
        self.errors.extend(self._document.with_lines(list(problems)[: MAX_PROBLEMS - len(self.errors)]))

    def _problem(self, path: ValuePath, message: str, hint: str, code: str) -> Problem:
        return Problem(join_path(path), message, hint, code, self._document.line_of(path))


class Fields:
    """A mapping of the document, read leniently.

    The schema has already reported every value of the wrong type, so such a value reads as missing here. That lets the
    remaining rules run, so that all mistakes of a file are reported at once.
    """

    def __init__(self, value: Any, path: ValuePath = ()) -> None:
        self.value: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def at(self, *keys: str | int) -> ValuePath:
        return (*self.path, *keys)

    def get(self, key: str) -> Any:
        return self.value.get(key)

    def text(self, key: str, default: str = "") -> str:
        value = self.value.get(key)
        return value if isinstance(value, str) else default

    def optional_text(self, key: str) -> str | None:
        """Return a non-empty text, or None."""
        return self.text(key) or None

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.value.get(key)
        return value if isinstance(value, bool) else default

    def integer(self, key: str, default: int) -> int:
        value = self.value.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def optional_integer(self, key: str) -> int | None:
        value = self.value.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def optional_number(self, key: str) -> float | None:
        value = self.value.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def number(self, key: str, default: float) -> float:
        value = self.value.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a list; entries of another type are left out."""
        return tuple(text for _, text in self.numbered_texts(key))

    def numbered_texts(self, key: str) -> Iterator[tuple[int, str]]:
        for index, item in enumerate(self.items(key)):
            if isinstance(item, str):
                yield index, item

    def items(self, key: str) -> list[Any]:
        value = self.value.get(key)
        return cast("list[Any]", value)[:MAX_ENTRIES] if isinstance(value, list) else []

    def within(self, key: str) -> Fields:
        """Return the mapping under a key; empty if there is none."""
        return Fields(self.value.get(key), self.at(key))

    def entries(self, key: str) -> Iterator[Fields]:
        """Yield each mapping of a list."""
        for index, item in enumerate(self.items(key)):
            if isinstance(item, dict):
                yield Fields(item, self.at(key, index))

    def named(self, key: str) -> Iterator[tuple[str, Fields]]:
        """Yield each mapping of a mapping, with its key."""
        inner = self.within(key)
        for name, item in islice(inner.value.items(), MAX_ENTRIES):
            if isinstance(item, dict):
                yield name, Fields(item, inner.at(name))

    def text_map(self, key: str) -> dict[str, str]:
        """Return a mapping of strings to strings; other values are left out."""
        entries = islice(self.within(key).value.items(), MAX_ENTRIES)
        return {name: item for name, item in entries if isinstance(item, str)}

    def object(self, key: str) -> dict[str, Any] | None:
        value = self.value.get(key)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None

"""Renders definitions as readable, comparable lines with invisible text escaped, and schemas as parameter
lists. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NotRequired, TypedDict, cast

from msgspec import Struct

from paddock.core.printable import printable
from paddock.core.schema.problem_text import json_type
from paddock.core.schema.traversal import ReferenceResolver, as_object
from paddock.plugins.tool_pinning.invisible_text import escape_invisible

LINE_CHARS = 110
MAX_DIFF_WORK = 50_000  # estimated steps; more would take too long on hostile input
CONTEXT_LINES = 2  # lines shown around a change
MAX_SENTENCE_SPLIT_CHARS = 65_536  # a longer definition is split by width alone, which is faster
_SENTENCE_ENDS = re.compile(r"(?<=\\n)|(?<=[.!?] )")


def diff_lines(old: str | None, new: str | None) -> list[str]:
    """Return a unified diff of two definitions, each as canonical JSON; None or empty if there is none.

    Only the part between the first and the last change is compared. If that would take long because very many lines are
    equal, all of it is shown as removed and added.
    """
    old_lines, new_lines = _definition_lines(old), _definition_lines(new)
    start, end = _common_ends(old_lines, new_lines)
    head, tail = old_lines[max(0, start - CONTEXT_LINES) : start], old_lines[len(old_lines) - end :][:CONTEXT_LINES]
    removed, added = old_lines[start : len(old_lines) - end], new_lines[start : len(new_lines) - end]
    if not removed and not added:
        return []
    if _estimate_diff_work(removed, added) > MAX_DIFF_WORK:
        changed = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
        return [*(f" {line}" for line in head), *changed, *(f" {line}" for line in tail)]
    diff = difflib.unified_diff([*head, *removed, *tail], [*head, *added, *tail], lineterm="", n=CONTEXT_LINES)
    shown = islice(diff, 3, None)  # without the file headers and the first hunk header
    return ["  …" if line.startswith("@@") else line for line in shown]


def _common_ends(old_lines: list[str], new_lines: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the beginning and at the end."""
    shorter = min(len(old_lines), len(new_lines))
    start = next((index for index in range(shorter) if old_lines[index] != new_lines[index]), shorter)
    end = next(
        (index for index in range(shorter - start) if old_lines[-1 - index] != new_lines[-1 - index]), shorter - start
    )
    return start, end


def _estimate_diff_work(old_lines: list[str], new_lines: list[str]) -> int:
    """Estimate the cost of a diff: each of as many steps as there are lines looks at all pairs of equal ones."""
    counts = Counter(old_lines)
    return (len(old_lines) + len(new_lines)) * (1 + sum(counts[line] for line in new_lines))


def _definition_lines(text: str | None) -> list[str]:
    if not text:
        return []
    pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    lines = (printable(escape_invisible(line), len(line) * 10 + 1) for line in pretty.split("\n"))
    return [part for line in lines for part in _split_line(line, sentences=len(text) <= MAX_SENTENCE_SPLIT_CHARS)]


def _split_line(line: str, *, sentences: bool) -> Iterator[str]:
    """Split a long line where sentences end, so that a changed word does not change all of it."""
    if len(line) <= LINE_CHARS:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    prefix = ""
    for sentence in _SENTENCE_ENDS.split(line) if sentences else [line]:
        for offset in range(0, len(sentence), LINE_CHARS):
            yield prefix + sentence[offset : offset + LINE_CHARS]
            prefix = indent


MAX_PARAMETERS: Final = 500
MAX_TYPE_VARIANTS: Final = 8  # shown of one parameter
MAX_SCHEMA_DEPTH: Final = 4  # nested lists and references that are followed
MAX_COMPOSED_SCHEMAS: Final = 50  # parts of one composed schema
MAX_LINE_CHARS: Final = 2_000
MAX_TEXT_CHARS: Final = 20_000


class CallableParameterJson(TypedDict):
    """A parameter of a callable, for people."""

    name: str
    type: str
    required: bool
    description: str
    default: NotRequired[Any]
    enum: NotRequired[list[Any]]


class CallableParameter(Struct, frozen=True):
    """One parameter of a callable. `choices` are its allowed values, if the schema lists them."""

    name: str
    type: str  # for people, as in
    required: bool
    description: str
    choices: tuple[Any, ...] | None = None
    default: Any = None
    has_default: bool = False

    def to_value(self) -> CallableParameterJson:
        parameter: CallableParameterJson = {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "description": self.description,
        }
        if self.has_default:
            parameter["default"] = self.default
        if self.choices is not None:
            parameter["enum"] = list(self.choices)
        return parameter


def visible_text(text: Any) -> str:
    """Return an author's text with its lines, and with invisible characters escaped."""
    if not isinstance(text, str):
        return ""
    lines = text[:MAX_TEXT_CHARS].replace("\t", " ").splitlines()
    return "\n".join(printable(escape_invisible(line), MAX_LINE_CHARS) for line in lines).strip()


def list_parameters(schema: Any) -> tuple[CallableParameter, ...]:
    """List the parameters of an input schema and the schemas in its `allOf`, required ones first."""
    describer = _SchemaDescriber(schema)
    fields: dict[str, Any] = {}
    required: set[str] = set()
    pending, seen = [schema], 0
    while pending and seen < MAX_COMPOSED_SCHEMAS:
        part, seen = describer.resolve_reference(pending.pop(0)), seen + 1
        if part is None:
            continue
        fields = (as_object(part.get("properties")) or {}) | fields
        required |= {name for name in _as_list(part.get("required")) if isinstance(name, str)}
        pending += _as_list(part.get("allOf"))
    names = sorted(fields, key=lambda name: name not in required)[:MAX_PARAMETERS]
    return tuple(describer.describe_parameter(name, fields[name], name in required) for name in names)


class _SchemaDescriber:
    """Describes the parts of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._resolver = ReferenceResolver()

    def resolve_reference(self, schema: Any) -> dict[str, Any] | None:
        """Resolve a schema's `$ref` and merge its sibling keys. None if it is not an object."""
        resolved = as_object(schema)
        for _ in range(MAX_SCHEMA_DEPTH):
            reference = resolved.get("$ref") if resolved is not None else None
            if resolved is None or not isinstance(reference, str) or not reference.startswith("#"):
                return resolved
            try:
                target = as_object(self._resolver.resolve(self._root, reference))
            except (LookupError, ValueError):
                target = None
            siblings = {key: value for key, value in resolved.items() if key != "$ref"}
            resolved = {**(target or {}), **siblings}
        return resolved

    def describe_parameter(self, name: str, schema: Any, required: bool) -> CallableParameter:
        resolved = self.resolve_reference(schema) or {}
        choices = [resolved["const"]] if "const" in resolved else resolved.get("enum")
        return CallableParameter(
            visible_text(name).replace("\n", " "),
            self._describe_type(schema, 0),
            required,
            visible_text(resolved.get("description") or resolved.get("title")),
            tuple(cast("list[Any]", choices)) if isinstance(choices, list) else None,
            resolved.get("default"),
            "default" in resolved,
        )

    def _describe_type(self, schema: Any, depth: int) -> str:
        resolved = self.resolve_reference(schema)
        if resolved is None or depth >= MAX_SCHEMA_DEPTH:
            return "anything"
        declared_type = resolved.get("type")
        names = [one for one in (_as_list(declared_type) or [declared_type]) if isinstance(one, str)]
        if names:
            return " or ".join(self._describe_named_type(one, resolved, depth) for one in names[:MAX_TYPE_VARIANTS])
        choices = [resolved["const"]] if "const" in resolved else _as_list(resolved.get("enum"))
        variants = _as_list(resolved.get("anyOf")) or _as_list(resolved.get("oneOf")) or _as_list(resolved.get("allOf"))
        descriptions = [json_type(one) for one in choices] or [
            self._describe_type(one, depth + 1) for one in variants[:MAX_TYPE_VARIANTS]
        ]
        return " or ".join(dict.fromkeys(descriptions)) or ("object" if "properties" in resolved else "anything")

    def _describe_named_type(self, name: str, schema: dict[str, Any], depth: int) -> str:
        if name == "array" and "items" in schema:
            return f"list of {self._describe_type(schema['items'], depth + 1)}"
        form = schema.get("format")
        if name == "string" and isinstance(form, str):
            return f"string ({printable(escape_invisible(form), 40)})"
        return "list" if name == "array" else printable(escape_invisible(name), 40)


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []

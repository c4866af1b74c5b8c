"""Definitions as lines that people can read and compare, with everything hidden made visible. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from paddock.core.printable import printable
from paddock.core.schema.problem_text import json_type
from paddock.core.schema.traversal import ReferenceResolver, as_object
from paddock.plugins.tool_pinning.invisible_text import escape_invisible

LINE_CHARS = 110
MAX_DIFF_WORK = 50_000  # pairs of equal lines times lines: what is compared in good time, whoever wrote it
CONTEXT_LINES = 2  # lines around a change
MAX_SENTENCE_SPLIT_CHARS = 65_536  # characters; a longer definition is cut by width alone, which is quicker
_SENTENCE_ENDS = re.compile(r"(?<=\\n)|(?<=[.!?] )")


def diff_lines(old: str | None, new: str | None) -> list[str]:
    """A unified difference of two definitions, each as canonical JSON; None or empty where there is none.

    Lines that are equal are looked for between the first change and the last. Where that would take long, since a great
    many are alike, everything in between is shown as gone and as new.
    """
    before, after = _definition_lines(old), _definition_lines(new)
    start, end = _common_ends(before, after)
    head, tail = before[max(0, start - CONTEXT_LINES) : start], before[len(before) - end :][:CONTEXT_LINES]
    gone, come = before[start : len(before) - end], after[start : len(after) - end]
    if not gone and not come:
        return []
    if _estimate_diff_work(gone, come) > MAX_DIFF_WORK:
        changed = [*(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
        return [*(f" {line}" for line in head), *changed, *(f" {line}" for line in tail)]
    compared = difflib.unified_diff([*head, *gone, *tail], [*head, *come, *tail], lineterm="", n=CONTEXT_LINES)
    shown = islice(compared, 3, None)  # without names and numbers
    return ["  …" if line.startswith("@@") else line for line in shown]


def _common_ends(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many at the end."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return start, end


def _estimate_diff_work(before: list[str], after: list[str]) -> int:
    """How much there may be to do: each of as many steps as there are lines looks at all pairs of equal ones."""
    known = Counter(before)
    return (len(before) + len(after)) * (1 + sum(known[line] for line in after))


def _definition_lines(text: str | None) -> list[str]:
    if not text:
        return []
    pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    lines = (printable(escape_invisible(line), len(line) * 10 + 1) for line in pretty.split("\n"))
    return [piece for line in lines for piece in _split_line(line, sentences=len(text) <= MAX_SENTENCE_SPLIT_CHARS)]


def _split_line(line: str, *, sentences: bool) -> Iterator[str]:
    """A long line in parts, cut where sentences end, so that a changed word does not change all of it."""
    if len(line) <= LINE_CHARS:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    prefix = ""
    for sentence in _SENTENCE_ENDS.split(line) if sentences else [line]:
        for at in range(0, len(sentence), LINE_CHARS):
            yield prefix + sentence[at : at + LINE_CHARS]
            prefix = indent


MAX_PARAMETERS: Final = 500
MAX_TYPE_VARIANTS: Final = 8  # of one parameter that are told
MAX_SCHEMA_DEPTH: Final = 4  # lists in lists, and references to references, that are told
MAX_COMPOSED_SCHEMAS: Final = 50  # schemas that one is composed of
MAX_LINE_CHARS: Final = 2_000
MAX_TEXT_CHARS: Final = 20_000


@dataclass(frozen=True, slots=True)
class CallableParameter:
    """One parameter of a callable. `choices` are all that it may be, where the schema says so."""

    name: str
    type: str  # in words, as in "list of string"
    required: bool
    description: str
    choices: tuple[Any, ...] | None = None
    default: Any = None
    has_default: bool = False

    def to_value(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "description": self.description,
            **({"default": self.default} if self.has_default else {}),
            **({"enum": list(self.choices)} if self.choices is not None else {}),
        }


def visible_text(text: Any) -> str:
    """A text of an author's with its lines, and with everything that does not show written out."""
    if not isinstance(text, str):
        return ""
    lines = text[:MAX_TEXT_CHARS].replace("\t", " ").splitlines()
    return "\n".join(printable(escape_invisible(line), MAX_LINE_CHARS) for line in lines).strip()


def list_parameters(schema: Any) -> tuple[CallableParameter, ...]:
    """The parameters that an input schema names, those first that are required; of the schemas in its `allOf` too."""
    words = _SchemaDescriber(schema)
    fields: dict[str, Any] = {}
    required: set[str] = set()
    pending, seen = [schema], 0
    while pending and seen < MAX_COMPOSED_SCHEMAS:
        found, seen = words.resolve_reference(pending.pop(0)), seen + 1
        if found is None:
            continue
        fields = (as_object(found.get("properties")) or {}) | fields
        required |= {name for name in _as_list(found.get("required")) if isinstance(name, str)}
        pending += _as_list(found.get("allOf"))
    names = sorted(fields, key=lambda name: name not in required)[:MAX_PARAMETERS]
    return tuple(words.describe_parameter(name, fields[name], name in required) for name in names)


class _SchemaDescriber:
    """What the parts of one schema say."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._resolver = ReferenceResolver()

    def resolve_reference(self, schema: Any) -> dict[str, Any] | None:
        """The schema that is meant: what it refers to, with what it says beside that. None where it says nothing."""
        found = as_object(schema)
        for _ in range(MAX_SCHEMA_DEPTH):
            reference = found.get("$ref") if found is not None else None
            if found is None or not isinstance(reference, str) or not reference.startswith("#"):
                return found
            try:
                target = as_object(self._resolver.resolve(self._root, reference))
            except (LookupError, ValueError):
                target = None
            beside = {key: value for key, value in found.items() if key != "$ref"}
            found = {**(target or {}), **beside}
        return found

    def describe_parameter(self, name: str, schema: Any, required: bool) -> CallableParameter:
        found = self.resolve_reference(schema) or {}
        choices = [found["const"]] if "const" in found else found.get("enum")
        return CallableParameter(
            visible_text(name).replace("\n", " "),
            self._describe_type(schema, 0),
            required,
            visible_text(found.get("description") or found.get("title")),
            tuple(cast("list[Any]", choices)) if isinstance(choices, list) else None,
            found.get("default"),
            "default" in found,
        )

    def _describe_type(self, schema: Any, depth: int) -> str:
        found = self.resolve_reference(schema)
        if found is None or depth >= MAX_SCHEMA_DEPTH:
            return "anything"
        named = found.get("type")
        names = [one for one in (_as_list(named) or [named]) if isinstance(one, str)]
        if names:
            return " or ".join(self._describe_named_type(one, found, depth) for one in names[:MAX_TYPE_VARIANTS])
        choices = [found["const"]] if "const" in found else _as_list(found.get("enum"))
        forms = _as_list(found.get("anyOf")) or _as_list(found.get("oneOf")) or _as_list(found.get("allOf"))
        told = [json_type(one) for one in choices] or [
            self._describe_type(one, depth + 1) for one in forms[:MAX_TYPE_VARIANTS]
        ]
        return " or ".join(dict.fromkeys(told)) or ("object" if "properties" in found else "anything")

    def _describe_named_type(self, name: str, schema: dict[str, Any], depth: int) -> str:
        if name == "array" and "items" in schema:
            return f"list of {self._describe_type(schema['items'], depth + 1)}"
        form = schema.get("format")
        if name == "string" and isinstance(form, str):
            return f"string ({printable(escape_invisible(form), 40)})"
        return "list" if name == "array" else printable(escape_invisible(name), 40)


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []

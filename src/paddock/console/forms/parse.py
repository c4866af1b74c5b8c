"""Parses submitted forms into values, and applies row edits. Pure.

Whether a value is valid is decided by the schema's validator.
"""

from __future__ import annotations

import dataclasses
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from math import isinf
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.console.forms.controls import FormControl
from paddock.console.forms.fields import (
    CHOICE_SUFFIX,
    MAX_ROWS,
    PRESENT_SUFFIX,
    ROWS_SUFFIX,
    UnparsedText,
    json_pointer,
)
from paddock.core.errors import Invalid, Problem
from paddock.core.schema.compile import join_path
from paddock.core.schema.traversal import PathPart
from paddock.web.routing.json_parser import MAX_INTEGER, MIN_INTEGER, parse_json_object, parse_json_value

FormTexts: TypeAlias = Mapping[str, Sequence[str]]
"""Submitted texts by input name, in order."""

RAW_JSON_FIELD: Final = "_json"
"""Name of the input that holds the whole value as JSON."""

_INDEX: Final = re.compile(r"[0-9]{1,5}")  # of a row or an alternative
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_JSON_HINT: Final = 'write it as in {"name": "value"}'
_SYNTAX_ERROR_CODES: Final = ("not_json", "wrong_type")
_OMITTED: Final = object()


class ParsedForm(Struct, frozen=True):
    """A value, and the parts that could not be parsed."""

    value: Any
    problems: tuple[Problem, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FormFile:
    """An uploaded file of a form."""

    name: str
    media_type: str
    content: bytes = dataclasses.field(repr=False)


def parse_fields(shape: FormControl, texts: FormTexts, files: Mapping[str, FormFile] | None = None) -> ParsedForm:
    """Parse the inputs of a form that was built from this control.

    Empty fields are omitted, or null if nullable. Fields that are hidden, given the other values, are omitted too.
    """
    parser = _FormParser(texts, files or {})
    value = parser.parse(shape, ())
    return ParsedForm({} if value is _OMITTED else value, tuple(parser.problems))


def parse_form(
    shape: FormControl, texts: FormTexts, files: Mapping[str, FormFile] | None = None
) -> tuple[Any, list[Problem]]:
    """Parse a form, whether its fields were filled in or the whole value was written as JSON."""
    if RAW_JSON_FIELD in texts:
        try:
            return parse_json_object(texts[RAW_JSON_FIELD][-1].strip().encode() or b"{}"), []
        except Invalid as error:
            return {}, _json_problems(error, "", "this ")
    parsed = parse_fields(shape, texts, files)
    return parsed.value, list(parsed.problems)


class _FormParser(Struct):
    sent: FormTexts
    files: Mapping[str, FormFile]
    problems: list[Problem] = field(default_factory=list[Problem])

    def parse(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        match shape.control:
            case "group":
                return self._parse_group(shape, path)
            case "rows" if shape.each is not None:
                return self._parse_rows(shape, shape.each, path)
            case "either":
                choice = self._last_value(path, CHOICE_SUFFIX)
                index = int(choice) if _INDEX.fullmatch(choice) else 0
                return self.parse(shape.either[min(index, len(shape.either) - 1)], path)
            case "toggle":
                return self._parse_toggle(shape, path)
            case "checks":
                checked = set(self.sent.get(json_pointer(path), ()))
                chosen = [option.value for option in shape.options if option.text in checked]
                return chosen if chosen or shape.required else _OMITTED
            case "file":
                return self._parse_file(shape, path)
            case _:
                return self._parse_text(shape, path)

    def _parse_group(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        parsed = {
            name: self.parse(control, (*path, name)) for name, control in shape.fields if not _has_no_input(control)
        }
        present = {name: value for name, value in parsed.items() if value is not _OMITTED}
        # Twice, for fields whose condition depends on a field that is hidden itself.
        for _ in range(2):
            present = {
                name: value for name, value in present.items() if dict(shape.fields)[name].hints.is_visible(present)
            }
        constants = {name: control.schema["const"] for name, control in shape.fields if "const" in control.schema}
        if not present and not shape.required and path:
            return _OMITTED
        return constants | present

    def _parse_rows(self, shape: FormControl, each: FormControl, path: tuple[PathPart, ...]) -> Any:
        if json_pointer(path) + ROWS_SUFFIX not in self.sent:
            return _OMITTED
        numbers = [
            row_number for row_number in self.sent[json_pointer(path) + ROWS_SUFFIX] if _INDEX.fullmatch(row_number)
        ]
        rows = [
            self._parse_row(each, path, number, index) for index, number in enumerate(dict.fromkeys(numbers[:MAX_ROWS]))
        ]
        return rows if rows or shape.required else _OMITTED

    def _parse_row(self, each: FormControl, path: tuple[PathPart, ...], number: str, index: int) -> Any:
        problem_count = len(self.problems)
        value = self.parse(each, (*path, int(number)))
        # Removed rows leave no gap in the value: problems must name the final index.
        submitted_path, final_path = join_path((*path, int(number))), join_path((*path, index))
        renumbered = [
            replace(problem, path=final_path + problem.path.removeprefix(submitted_path))
            for problem in self.problems[problem_count:]
        ]
        self.problems[problem_count:] = renumbered
        return ({} if each.control == "group" else None) if value is _OMITTED else value

    def _parse_toggle(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        if shape.nullable or (not shape.required and "default" not in shape.schema):
            text = self._last_value(path)
            if text in ("true", "false"):
                return text == "true"
            return None if shape.nullable and json_pointer(path) in self.sent else _OMITTED
        return (
            "true" in self.sent.get(json_pointer(path), ())
            if json_pointer(path) + PRESENT_SUFFIX in self.sent
            else _OMITTED
        )

    def _parse_file(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        file = self.files.get(json_pointer(path))
        if file is None or not (file.name or file.content):
            return None if shape.nullable else _OMITTED
        encoded = b64encode(file.content).decode()
        return f"data:{file.media_type};base64,{encoded}" if shape.schema.get("format") == "data-url" else encoded

    def _parse_text(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        if json_pointer(path) not in self.sent:
            return _OMITTED
        text = self._last_value(path).replace("\r\n", "\n")
        if shape.control == "choice":
            if text in {option.text for option in shape.options}:
                return next(option.value for option in shape.options if option.text == text)
        elif shape.control == "lines":
            return self._parse_lines(shape, path, text)
        elif shape.control == "json":
            return self._parse_json(shape, path, text)
        if not text:
            return None if shape.nullable else _OMITTED  # an empty text can only be entered as JSON
        return self._parse_number(text, path, shape.kind) if shape.control in ("number", "range") else text

    def _parse_lines(self, shape: FormControl, path: tuple[PathPart, ...], text: str) -> Any:
        lines = [line for line in text.split("\n") if line.strip()]
        if not lines:
            return None if shape.nullable else [] if shape.required else _OMITTED
        if shape.each is None or shape.each.control != "number":
            return lines
        return [self._parse_number(line.strip(), (*path, index), shape.each.kind) for index, line in enumerate(lines)]

    def _parse_number(self, text: str, path: tuple[PathPart, ...], kind: str) -> Any:
        plain = text.strip()
        if not (_INTEGER.fullmatch(plain) or _NUMBER.fullmatch(plain)):
            self.problems.append(Problem(join_path(path), "is no number", "write digits, such as 12 or 1.5", "type"))
            return text
        number = int(plain) if _INTEGER.fullmatch(plain) else float(plain)
        if isinstance(number, float) and kind == "integer" and number.is_integer():
            number = int(number)
        if isinf(number) or (isinstance(number, int) and not MIN_INTEGER <= number <= MAX_INTEGER):
            self.problems.append(Problem(join_path(path), "does not fit in 64 bits", "write another", "number_too_big"))
            return text
        return number

    def _parse_json(self, shape: FormControl, path: tuple[PathPart, ...], text: str) -> Any:
        if not text.strip():
            return None if shape.nullable else _OMITTED
        try:
            return parse_json_value(text.encode())
        except Invalid as error:
            self.problems += _json_problems(error, join_path(path))
            return UnparsedText(text)

    def _last_value(self, path: tuple[PathPart, ...], suffix: str = "") -> str:
        texts = self.sent.get(json_pointer(path) + suffix, ())
        return texts[-1] if texts else ""


def _json_problems(error: Invalid, path: str, prefix: str = "") -> list[Problem]:
    """Rewrite JSON errors for the person who typed it."""
    return [
        replace(
            problem,
            path=path,
            message=prefix + problem.message,
            hint=_JSON_HINT if problem.code in _SYNTAX_ERROR_CODES else problem.hint,
        )
        for problem in error.problems
    ]


def _has_no_input(shape: FormControl) -> bool:
    """Return whether a field has no input: it is hidden, or constant."""
    return shape.hints.hidden or "const" in shape.schema


ADD_ROW_FIELD: Final = "_add"
REMOVE_ROW_FIELD: Final = "_remove"
REFRESH_FIELD: Final = "_refresh"


def is_form_edit(texts: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the submission only edits the form's rows and does not complete it."""
    return any(name in texts for name in (ADD_ROW_FIELD, REMOVE_ROW_FIELD, REFRESH_FIELD))


def apply_row_edits(value: Any, texts: Mapping[str, Sequence[str]]) -> Any:
    """Add or remove rows as requested. Changes and returns the value."""
    for pointer in texts.get(ADD_ROW_FIELD, ()):
        *steps, last = _pointer_steps(pointer)
        container = _find_container(value, steps, create=True)
        if isinstance(container, dict):
            rows = cast("dict[str, Any]", container).setdefault(last, [])
            if isinstance(rows, list):
                cast("list[Any]", rows).append(None)
    for pointer in texts.get(REMOVE_ROW_FIELD, ()):
        *steps, last = _pointer_steps(pointer)
        rows = _find_container(value, steps, create=False)
        if isinstance(rows, list) and (index := _row_index(last, cast("list[Any]", rows))) is not None:
            del rows[index]
    return value


def _find_container(value: Any, steps: Sequence[str], *, create: bool) -> Any:
    current = value
    for step in steps:
        if isinstance(current, dict):
            fields = cast("dict[str, Any]", current)
            current = fields.setdefault(step, {}) if create else fields.get(step)
        elif isinstance(current, list) and (index := _row_index(step, cast("list[Any]", current))) is not None:
            rows = cast("list[Any]", current)
            if rows[index] is None and create:
                rows[index] = {}
            current = rows[index]
        else:
            return None
    return current


def _row_index(step: str, rows: Sequence[Any]) -> int | None:
    """Return the index that a pointer step names; None if there is no such row."""
    return next((index for index in range(len(rows)) if str(index) == step), None)


def _pointer_steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]] or [""]

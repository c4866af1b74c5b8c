"""What somebody filled in, as a value. Pure: whether it is a good one is for the schema's own validator to say."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any, Final, TypeAlias, cast

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
"""What a form sends, by name, in order."""

RAW_JSON_FIELD: Final = "_json"
"""The name of the field in which somebody writes everything as JSON."""

_INDEX: Final = re.compile(r"[0-9]{1,5}")  # of a row, or of one of several shapes
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_JSON_HINT: Final = 'write it as in {"name": "value"}'
_SYNTAX_ERROR_CODES: Final = ("not_json", "wrong_type")
_OMITTED: Final = object()


@dataclass(frozen=True, slots=True)
class ParsedForm:
    """A value, and what could not be read of it."""

    value: Any
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class FormFile:
    """A file that somebody chose."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


def parse_fields(shape: FormControl, sent: FormTexts, files: Mapping[str, FormFile] | None = None) -> ParsedForm:
    """What a form that was made of this shape comes to.

    What is empty is left out, or null where that will do; what is not shown, given the rest, is left out as well.
    """
    reading = _FormParser(sent, files or {})
    value = reading.parse(shape, ())
    return ParsedForm({} if value is _OMITTED else value, tuple(reading.problems))


def parse_form(
    shape: FormControl, sent: FormTexts, files: Mapping[str, FormFile] | None = None
) -> tuple[Any, list[Problem]]:
    """What a form says, whether its fields were filled in or all of it was written as JSON."""
    if RAW_JSON_FIELD in sent:
        try:
            return parse_json_object(sent[RAW_JSON_FIELD][-1].strip().encode() or b"{}"), []
        except Invalid as error:
            return {}, _json_problems(error, "", "this ")
    read = parse_fields(shape, sent, files)
    return read.value, list(read.problems)


@dataclass(slots=True)
class _FormParser:
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
                said = self._last_value(path, CHOICE_SUFFIX)
                number = int(said) if _INDEX.fullmatch(said) else 0
                return self.parse(shape.either[min(number, len(shape.either) - 1)], path)
            case "toggle":
                return self._parse_toggle(shape, path)
            case "checks":
                given = set(self.sent.get(json_pointer(path), ()))
                chosen = [one.value for one in shape.options if one.text in given]
                return chosen if chosen or shape.required else _OMITTED
            case "file":
                return self._parse_file(shape, path)
            case _:
                return self._parse_text(shape, path)

    def _parse_group(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        found = {name: self.parse(one, (*path, name)) for name, one in shape.fields if not _has_no_input(one)}
        there = {name: value for name, value in found.items() if value is not _OMITTED}
        # Twice, for what is shown because of something that is not shown itself.
        for _ in range(2):
            there = {name: value for name, value in there.items() if dict(shape.fields)[name].hints.is_visible(there)}
        constants = {name: one.schema["const"] for name, one in shape.fields if "const" in one.schema}
        if not there and not shape.required and path:
            return _OMITTED
        return constants | there

    def _parse_rows(self, shape: FormControl, each: FormControl, path: tuple[PathPart, ...]) -> Any:
        if json_pointer(path) + ROWS_SUFFIX not in self.sent:
            return _OMITTED
        numbers = [one for one in self.sent[json_pointer(path) + ROWS_SUFFIX] if _INDEX.fullmatch(one)]
        rows = [self._parse_row(each, path, number, at) for at, number in enumerate(dict.fromkeys(numbers[:MAX_ROWS]))]
        return rows if rows or shape.required else _OMITTED

    def _parse_row(self, each: FormControl, path: tuple[PathPart, ...], number: str, at: int) -> Any:
        before = len(self.problems)
        value = self.parse(each, (*path, int(number)))
        # Rows that were taken out leave no gap in what is told.
        told, real = join_path((*path, int(number))), join_path((*path, at))
        moved = [
            Problem(real + one.path.removeprefix(told), one.message, one.hint, one.code)
            for one in self.problems[before:]
        ]
        self.problems[before:] = moved
        return ({} if each.control == "group" else None) if value is _OMITTED else value

    def _parse_toggle(self, shape: FormControl, path: tuple[PathPart, ...]) -> Any:
        if shape.nullable or (not shape.required and "default" not in shape.schema):
            said = self._last_value(path)
            if said in ("true", "false"):
                return said == "true"
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
            if text in {one.text for one in shape.options}:
                return next(one.value for one in shape.options if one.text == text)
        elif shape.control == "lines":
            return self._parse_lines(shape, path, text)
        elif shape.control == "json":
            return self._parse_json(shape, path, text)
        if not text:
            return None if shape.nullable else _OMITTED  # whoever means an empty text writes JSON
        return self._parse_number(text, path, shape.kind) if shape.control in ("number", "range") else text

    def _parse_lines(self, shape: FormControl, path: tuple[PathPart, ...], text: str) -> Any:
        lines = [line for line in text.split("\n") if line.strip()]
        if not lines:
            return None if shape.nullable else [] if shape.required else _OMITTED
        if shape.each is None or shape.each.control != "number":
            return lines
        return [self._parse_number(line.strip(), (*path, at), shape.each.kind) for at, line in enumerate(lines)]

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

    def _last_value(self, path: tuple[PathPart, ...], ending: str = "") -> str:
        given = self.sent.get(json_pointer(path) + ending, ())
        return given[-1] if given else ""


def _json_problems(error: Invalid, path: str, before: str = "") -> list[Problem]:
    """What is wrong with JSON, for whoever typed it."""
    return [
        Problem(path, before + one.message, _JSON_HINT if one.code in _SYNTAX_ERROR_CODES else one.hint, one.code)
        for one in error.problems
    ]


def _has_no_input(shape: FormControl) -> bool:
    """Whether a field has no control: it is hidden, or can have one value only."""
    return shape.hints.hidden or "const" in shape.schema


ADD_ROW_FIELD: Final = "_add"
REMOVE_ROW_FIELD: Final = "_remove"
REFRESH_FIELD: Final = "_refresh"


def is_form_edit(sent: Mapping[str, Sequence[str]]) -> bool:
    """Whether somebody only changes the form, and is not done with it."""
    return any(word in sent for word in (ADD_ROW_FIELD, REMOVE_ROW_FIELD, REFRESH_FIELD))


def apply_row_edits(value: Any, sent: Mapping[str, Sequence[str]]) -> Any:
    """The value with a row more, or one less, where that was asked for. The value itself is changed."""
    for place in sent.get(ADD_ROW_FIELD, ()):
        *way, last = _pointer_steps(place)
        holder = _find_container(value, way, make=True)
        if isinstance(holder, dict):
            rows = cast("dict[str, Any]", holder).setdefault(last, [])
            if isinstance(rows, list):
                cast("list[Any]", rows).append(None)
    for place in sent.get(REMOVE_ROW_FIELD, ()):
        *way, last = _pointer_steps(place)
        rows = _find_container(value, way, make=False)
        if isinstance(rows, list) and (at := _row_index(last, cast("list[Any]", rows))) is not None:
            del rows[at]
    return value


def _find_container(value: Any, way: Sequence[str], *, make: bool) -> Any:
    here = value
    for step in way:
        if isinstance(here, dict):
            inside = cast("dict[str, Any]", here)
            here = inside.setdefault(step, {}) if make else inside.get(step)
        elif isinstance(here, list) and (at := _row_index(step, cast("list[Any]", here))) is not None:
            there = cast("list[Any]", here)
            if there[at] is None and make:
                there[at] = {}
            here = there[at]
        else:
            return None
    return here


def _row_index(step: str, rows: Sequence[Any]) -> int | None:
    """Which row a step of a place names; None where there is none."""
    return next((at for at in range(len(rows)) if str(at) == step), None)


def _pointer_steps(place: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]] or [""]

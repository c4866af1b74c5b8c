"""What somebody filled in, as a value. Pure: whether it is a good one is for the schema's own validator to say."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any, Final, TypeAlias

from paddock.core.errors import Invalid, Problem
from paddock.core.schema import join_path
from paddock.core.schema_walk import Part
from paddock.http.console.forms.fields import CHOICE, MOST_ROWS, ROWS, SEEN, Miswritten, pointer
from paddock.http.console.forms.shape import Shape
from paddock.http.json_text import LARGEST_NUMBER, SMALLEST_NUMBER, read_object, read_value

Sent: TypeAlias = Mapping[str, Sequence[str]]
"""What a form sends, by name, in order."""

RAW: Final = "_json"
"""The name of the field in which somebody writes everything as JSON."""

_PLACE: Final = re.compile(r"[0-9]{1,5}")  # of a row, or of one of several shapes
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_AS_JSON: Final = 'write it as in {"name": "value"}'
_MISWRITTEN: Final = ("not_json", "wrong_type")
_LEFT_OUT: Final = object()


@dataclass(frozen=True, slots=True)
class Filled:
    """A value, and what could not be read of it."""

    value: Any
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A file that somebody chose."""

    name: str
    media: str
    content: bytes = field(repr=False)


def filled_in(shape: Shape, sent: Sent, files: Mapping[str, File] | None = None) -> Filled:
    """What a form that was made of this shape comes to.

    What is empty is left out, or null where that will do; what is not shown, given the rest, is left out as well.
    """
    reading = _Reading(sent, files or {})
    value = reading.of(shape, ())
    return Filled({} if value is _LEFT_OUT else value, tuple(reading.problems))


def value_in(shape: Shape, sent: Sent, files: Mapping[str, File] | None = None) -> tuple[Any, list[Problem]]:
    """What a form says, whether its fields were filled in or all of it was written as JSON."""
    if RAW in sent:
        try:
            return read_object(sent[RAW][-1].strip().encode() or b"{}"), []
        except Invalid as error:
            return {}, _told(error, "", "this ")
    read = filled_in(shape, sent, files)
    return read.value, list(read.problems)


@dataclass(slots=True)
class _Reading:
    sent: Sent
    files: Mapping[str, File]
    problems: list[Problem] = field(default_factory=list[Problem])

    def of(self, shape: Shape, path: tuple[Part, ...]) -> Any:
        match shape.control:
            case "group":
                return self._group(shape, path)
            case "rows" if shape.each is not None:
                return self._rows(shape, shape.each, path)
            case "either":
                said = self._one(path, CHOICE)
                number = int(said) if _PLACE.fullmatch(said) else 0
                return self.of(shape.either[min(number, len(shape.either) - 1)], path)
            case "toggle":
                return self._toggle(shape, path)
            case "checks":
                given = set(self.sent.get(pointer(path), ()))
                chosen = [one.value for one in shape.options if one.text in given]
                return chosen if chosen or shape.required else _LEFT_OUT
            case "file":
                return self._file(shape, path)
            case _:
                return self._typed(shape, path)

    def _group(self, shape: Shape, path: tuple[Part, ...]) -> Any:
        found = {name: self.of(one, (*path, name)) for name, one in shape.fields if not _given_otherwise(one)}
        there = {name: value for name, value in found.items() if value is not _LEFT_OUT}
        # Twice, for what is shown because of something that is not shown itself.
        for _ in range(2):
            there = {name: value for name, value in there.items() if dict(shape.fields)[name].hints.shown(there)}
        constants = {name: one.schema["const"] for name, one in shape.fields if "const" in one.schema}
        if not there and not shape.required and path:
            return _LEFT_OUT
        return constants | there

    def _rows(self, shape: Shape, each: Shape, path: tuple[Part, ...]) -> Any:
        if pointer(path) + ROWS not in self.sent:
            return _LEFT_OUT
        numbers = [one for one in self.sent[pointer(path) + ROWS] if _PLACE.fullmatch(one)]
        rows = [self._row(each, path, number, at) for at, number in enumerate(dict.fromkeys(numbers[:MOST_ROWS]))]
        return rows if rows or shape.required else _LEFT_OUT

    def _row(self, each: Shape, path: tuple[Part, ...], number: str, at: int) -> Any:
        before = len(self.problems)
        value = self.of(each, (*path, int(number)))
        # Rows that were taken out leave no gap in what is told.
        told, real = join_path((*path, int(number))), join_path((*path, at))
        moved = [
            Problem(real + one.path.removeprefix(told), one.message, one.hint, one.code)
            for one in self.problems[before:]
        ]
        self.problems[before:] = moved
        return ({} if each.control == "group" else None) if value is _LEFT_OUT else value

    def _toggle(self, shape: Shape, path: tuple[Part, ...]) -> Any:
        if shape.nullable or (not shape.required and "default" not in shape.schema):
            said = self._one(path)
            if said in ("true", "false"):
                return said == "true"
            return None if shape.nullable and pointer(path) in self.sent else _LEFT_OUT
        return "true" in self.sent.get(pointer(path), ()) if pointer(path) + SEEN in self.sent else _LEFT_OUT

    def _file(self, shape: Shape, path: tuple[Part, ...]) -> Any:
        file = self.files.get(pointer(path))
        if file is None or not (file.name or file.content):
            return None if shape.nullable else _LEFT_OUT
        encoded = b64encode(file.content).decode()
        return f"data:{file.media};base64,{encoded}" if shape.schema.get("format") == "data-url" else encoded

    def _typed(self, shape: Shape, path: tuple[Part, ...]) -> Any:
        if pointer(path) not in self.sent:
            return _LEFT_OUT
        text = self._one(path).replace("\r\n", "\n")
        if shape.control == "choice":
            if text in {one.text for one in shape.options}:
                return next(one.value for one in shape.options if one.text == text)
        elif shape.control == "lines":
            return self._lines(shape, path, text)
        elif shape.control == "json":
            return self._json(shape, path, text)
        if not text:
            return None if shape.nullable else _LEFT_OUT  # whoever means an empty text writes JSON
        return self._number(text, path, shape.kind) if shape.control in ("number", "range") else text

    def _lines(self, shape: Shape, path: tuple[Part, ...], text: str) -> Any:
        lines = [line for line in text.split("\n") if line.strip()]
        if not lines:
            return None if shape.nullable else [] if shape.required else _LEFT_OUT
        if shape.each is None or shape.each.control != "number":
            return lines
        return [self._number(line.strip(), (*path, at), shape.each.kind) for at, line in enumerate(lines)]

    def _number(self, text: str, path: tuple[Part, ...], kind: str) -> Any:
        plain = text.strip()
        if not (_WHOLE.fullmatch(plain) or _NUMBER.fullmatch(plain)):
            self.problems.append(Problem(join_path(path), "is no number", "write digits, such as 12 or 1.5", "type"))
            return text
        number = int(plain) if _WHOLE.fullmatch(plain) else float(plain)
        if isinstance(number, float) and kind == "integer" and number.is_integer():
            number = int(number)
        if isinf(number) or (isinstance(number, int) and not SMALLEST_NUMBER <= number <= LARGEST_NUMBER):
            self.problems.append(Problem(join_path(path), "does not fit in 64 bits", "write another", "number_too_big"))
            return text
        return number

    def _json(self, shape: Shape, path: tuple[Part, ...], text: str) -> Any:
        if not text.strip():
            return None if shape.nullable else _LEFT_OUT
        try:
            return read_value(text.encode())
        except Invalid as error:
            self.problems += _told(error, join_path(path))
            return Miswritten(text)

    def _one(self, path: tuple[Part, ...], ending: str = "") -> str:
        given = self.sent.get(pointer(path) + ending, ())
        return given[-1] if given else ""


def _told(error: Invalid, path: str, before: str = "") -> list[Problem]:
    """What is wrong with JSON, for whoever typed it."""
    return [
        Problem(path, before + one.message, _AS_JSON if one.code in _MISWRITTEN else one.hint, one.code)
        for one in error.problems
    ]


def _given_otherwise(shape: Shape) -> bool:
    """Whether a field has no control: it is hidden, or can have one value only."""
    return shape.hints.hidden or "const" in shape.schema

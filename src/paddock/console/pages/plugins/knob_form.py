"""A plugin's knobs as a form, and what somebody filled in as a turn of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.config.knob_values import KnobUpdate
from paddock.console.forms.controls import MAX_OBJECT_FIELDS, FormControl, build_control
from paddock.console.forms.fields import FormField, FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.core.errors import Problem

INITIAL_VALUES_FIELD: Final = "_shown"  # what the form was filled with, as JSON: only what differs from it was turned
_TEXT_TYPES: Final = ("text", "multiline", "path")  # of these an empty one is a value as well
_SLIDER_TYPES: Final = ("range", "int_range")

KnobJson = Mapping[str, Any]
"""As `knobs_of` tells it."""


@dataclass(frozen=True, slots=True)
class KnobView:
    """A knob on the page: its field, and the words beside it."""

    knob: KnobJson
    field: FormField
    takes: str
    default: str


def build_knob_control(knobs: Sequence[KnobJson]) -> FormControl:
    """The form of the knobs of a plugin; of as many as a form may have."""
    return build_control(
        {"type": "object", "properties": {knob["name"]: _knob_schema(knob) for knob in knobs[:MAX_OBJECT_FIELDS]}}
    )


def build_knob_form(
    knobs: Sequence[KnobJson], shape: FormControl, value: Any = None, problems: Sequence[Problem] = ()
) -> FormView:
    """The form with what each knob is at, and over it what somebody has typed."""
    return build_form(shape, {**current_values(knobs), **(value or {})}, [_strip_path_prefix(one) for one in problems])


def build_knob_views(knobs: Sequence[KnobJson], form: FormView) -> list[KnobView]:
    """Every knob with its field, in order."""
    by_name = {field.name: field for field in form.fields}
    known = [(one, by_name[f"/{one['name']}"]) for one in knobs[:MAX_OBJECT_FIELDS]]
    return [KnobView(one, field, _allowed_values_text(one), _value_text(one, one["default"])) for one, field in known]


def current_values(knobs: Sequence[KnobJson]) -> dict[str, Any]:
    """What each is at."""
    return {knob["name"]: knob["value"] for knob in knobs}


@dataclass(frozen=True, slots=True)
class ParsedKnobForm:
    """What somebody wants, what could not be read of it, and what stands in the form."""

    turn: KnobUpdate
    problems: tuple[Problem, ...]
    value: Mapping[str, Any]


def parse_knob_form(knobs: Sequence[KnobJson], shape: FormControl, sent: Mapping[str, Sequence[str]]) -> ParsedKnobForm:
    """What a form that was sent back comes to: those knobs that it shows otherwise than it was filled with.

    So nobody turns back what somebody else turned meanwhile. A text may be empty; whatever else is, is the default.
    """
    read = parse_fields(shape, sent)
    filled: dict[str, Any] = read.value
    before = _initial_values(knobs, sent)
    values: dict[str, Any] = {}
    back: list[str] = []
    typed = dict(filled)
    for knob in knobs:
        name = knob["name"]
        if name not in filled:
            if f"/{name}" not in sent:
                continue
            if knob["type"] not in _TEXT_TYPES:
                if knob["set"]:
                    back.append(name)
                continue
            typed[name] = ""
        if _comparable(typed[name]) != _comparable(before.get(name)):
            values[name] = typed[name]
    return ParsedKnobForm(KnobUpdate(values, tuple(back)), read.problems, typed)


def _knob_schema(knob: KnobJson) -> dict[str, Any]:
    """What the form is told of a knob. Whether a value is good is not asked of this, but of the knob itself."""
    kind, options, value = knob["type"], knob["options"], knob["value"]
    hints: dict[str, Any] = {"help": knob["description"]}
    schema: dict[str, Any] = {**knob["accepts"], "title": knob["label"] or knob["name"], "x-ui": hints}
    if knob["default"] is not None:
        schema["default"] = knob["default"]
    if kind in _SLIDER_TYPES and _is_on_step(value, options):
        hints["widget"] = "range"
        schema["multipleOf"] = options["step"]
    elif kind == "enum":
        hints["enum_labels"] = options.get("labels") or {}
        hints["placeholder"] = f"Default ({_value_text(knob, knob['default'])})" if knob["default"] is not None else ""
    elif kind == "multiline" or (isinstance(value, str) and "\n" in value):
        hints["widget"] = "textarea"
    elif kind == "model_alias":
        hints["placeholder"] = "none"
    return schema


def _is_on_step(value: Any, options: Mapping[str, Any]) -> bool:
    """Whether a slider can stand at a value: one that cannot would move it, and be saved so."""
    step, low, high = options.get("step"), options.get("min"), options.get("max")
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in (value, step, low, high)):
        return False
    if not step or not low <= value <= high:
        return False
    steps = (value - low) / step
    return abs(steps - round(steps)) < 1e-9


def _initial_values(knobs: Sequence[KnobJson], sent: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    try:
        told = json.loads(sent[INITIAL_VALUES_FIELD][-1])
    except (KeyError, IndexError, ValueError, RecursionError):
        return current_values(knobs)
    return cast("dict[str, Any]", told) if isinstance(told, dict) else current_values(knobs)


def _comparable(value: Any) -> str:
    """A value as one that forms can tell apart: they have one way to end a line, and nothing is an empty text."""
    plain = value.replace("\r\n", "\n") if isinstance(value, str) else value
    return json.dumps("" if plain is None else plain, sort_keys=True)


def _strip_path_prefix(problem: Problem) -> Problem:
    return Problem(problem.path.removeprefix("knobs."), problem.message, problem.hint, problem.code)


def _allowed_values_text(knob: KnobJson) -> str:
    """What it may be set to, where its field does not show that."""
    options = knob["options"]
    match knob["type"]:
        case "range" | "int_range":
            return f"{options['min']} to {options['max']}"
        case "path":
            return "a path below " + " or ".join(f"{prefix}/" for prefix in options["prefixes"])
        case "model_alias":
            return "the name of a model"
        case "text" | "multiline" if "max_length" in options:
            return f"up to {options['max_length']:,} characters"
        case _:
            return ""


def _value_text(knob: KnobJson, value: Any) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, bool):
        return "on" if value else "off"
    labels: Mapping[str, str] = knob["options"].get("labels") or {}
    text = labels.get(value, value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"

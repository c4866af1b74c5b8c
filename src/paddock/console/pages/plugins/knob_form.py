"""The knob form of a plugin, and the update that a submitted form makes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.config.knob_values import KnobUpdate
from paddock.console.forms.controls import MAX_OBJECT_FIELDS, FormControl, build_control
from paddock.console.forms.fields import FormField, FormView, build_form
from paddock.console.forms.parse import parse_fields
from paddock.core.errors import Problem
from paddock.manifest.rules.knobs import accepted_values_text

INITIAL_VALUES_FIELD: Final = "_shown"  # the initial values as JSON; only differences are set
_TEXT_TYPES: Final = ("text", "multiline", "path")  # for these an empty text is a value too
_SLIDER_TYPES: Final = ("range", "int_range")

KnobJson = Mapping[str, Any]
"""A knob as `KnobService.describe` returns it."""


class KnobView(Struct, frozen=True):
    """A knob on the page: its field, and the texts beside it."""

    knob: KnobJson
    field: FormField
    takes: str
    default: str


def build_knob_control(knobs: Sequence[KnobJson]) -> FormControl:
    """Build the control of a plugin's knobs, up to the limit of a form."""
    return build_control(
        {"type": "object", "properties": {knob["name"]: _knob_schema(knob) for knob in knobs[:MAX_OBJECT_FIELDS]}}
    )


def build_knob_form(
    knobs: Sequence[KnobJson], shape: FormControl, value: Any = None, problems: Sequence[Problem] = ()
) -> FormView:
    """Build the form with the current values, overlaid by typed ones."""
    return build_form(
        shape, {**current_values(knobs), **(value or {})}, [_strip_path_prefix(problem) for problem in problems]
    )


def build_knob_views(knobs: Sequence[KnobJson], form: FormView) -> list[KnobView]:
    """Return every knob with its field, in order."""
    by_name = {field.name: field for field in form.fields}
    pairs = [(knob, by_name[f"/{knob['name']}"]) for knob in knobs[:MAX_OBJECT_FIELDS]]
    return [
        KnobView(knob, field, _accepted_values_text(knob), _value_text(knob, knob["default"])) for knob, field in pairs
    ]


def current_values(knobs: Sequence[KnobJson]) -> dict[str, Any]:
    """Return the current value of each knob."""
    return {knob["name"]: knob["value"] for knob in knobs}


class ParsedKnobForm(Struct, frozen=True):
    """The requested update, its problems, and the values in the form."""

    turn: KnobUpdate
    problems: tuple[Problem, ...]
    value: Mapping[str, Any]


def parse_knob_form(
    knobs: Sequence[KnobJson], shape: FormControl, texts: Mapping[str, Sequence[str]]
) -> ParsedKnobForm:
    """Parse a submitted form: only knobs that differ from the initial values are set.

    So nobody overwrites what another person has set meanwhile. An empty text is a value; other empty fields reset to
    default.
    """
    parsed = parse_fields(shape, texts)
    filled: dict[str, Any] = parsed.value
    initial = _initial_values(knobs, texts)
    values: dict[str, Any] = {}
    reset: list[str] = []
    typed = dict(filled)
    for knob in knobs:
        name = knob["name"]
        if name not in filled:
            if f"/{name}" not in texts:
                continue
            if knob["type"] not in _TEXT_TYPES:
                if knob["set"]:
                    reset.append(name)
                continue
            typed[name] = ""
        if _comparable(typed[name]) != _comparable(initial.get(name)):
            values[name] = typed[name]
    return ParsedKnobForm(KnobUpdate(values, tuple(reset)), parsed.problems, typed)


def _knob_schema(knob: KnobJson) -> dict[str, Any]:
    """Return the schema for a knob's control. The knob itself validates values."""
    knob_type, options, value = knob["type"], knob["options"], knob["value"]
    hints: dict[str, Any] = {"help": knob["description"]}
    schema: dict[str, Any] = {**knob["accepts"], "title": knob["label"] or knob["name"], "x-ui": hints}
    if knob["default"] is not None:
        schema["default"] = knob["default"]
    if knob_type in _SLIDER_TYPES and _is_on_step(value, options):
        hints["widget"] = "range"
        schema["multipleOf"] = options["step"]
    elif knob_type == "enum":
        hints["enum_labels"] = options.get("labels") or {}
        hints["placeholder"] = f"Default ({_value_text(knob, knob['default'])})" if knob["default"] is not None else ""
    elif knob_type == "multiline" or (isinstance(value, str) and "\n" in value):
        hints["widget"] = "textarea"
    elif knob_type == "model_alias":
        hints["placeholder"] = "none"
    return schema


def _is_on_step(value: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a slider can show a value exactly: otherwise saving the form would change it."""
    step, low, high = options.get("step"), options.get("min"), options.get("max")
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in (value, step, low, high)):
        return False
    if not step or not low <= value <= high:
        return False
    steps = (value - low) / step
    return abs(steps - round(steps)) < 1e-9


def _initial_values(knobs: Sequence[KnobJson], texts: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    try:
        initial = json.loads(texts[INITIAL_VALUES_FIELD][-1])
    except (KeyError, IndexError, ValueError, RecursionError):
        return current_values(knobs)
    return cast("dict[str, Any]", initial) if isinstance(initial, dict) else current_values(knobs)


def _comparable(value: Any) -> str:
    """Return a value as forms can distinguish it: line endings are unified, and null equals empty text."""
    normalized = value.replace("\r\n", "\n") if isinstance(value, str) else value
    return json.dumps("" if normalized is None else normalized, sort_keys=True)


def _strip_path_prefix(problem: Problem) -> Problem:
    return replace(problem, path=problem.path.removeprefix("knobs."))


def _accepted_values_text(knob: KnobJson) -> str:
    """Describe the accepted values; empty if the form field shows them, or if any text is accepted."""
    kind, options = knob["type"], knob["options"]
    shown = kind in ("enum", "boolean") or (kind in ("text", "multiline") and "max_length" not in options)
    return "" if shown else accepted_values_text(kind, options)


def _value_text(knob: KnobJson, value: Any) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, bool):
        return "on" if value else "off"
    labels: Mapping[str, str] = knob["options"].get("labels") or {}
    text = labels.get(value, value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"

"""A plugin's knobs as a form, and what somebody filled in as a turn of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.config.knob_values import Turn
from paddock.core.errors import Problem
from paddock.http.console.forms.fields import Field, Form, form_of
from paddock.http.console.forms.filled import filled_in
from paddock.http.console.forms.shape import MOST_FIELDS, Shape, shape_of

SHOWN: Final = "_shown"  # what the form was filled with, as JSON: only what differs from it was turned
_TEXTS: Final = ("text", "multiline", "path")  # of these an empty one is a value as well
_SLIDERS: Final = ("range", "int_range")

Knob = Mapping[str, Any]
"""As `knobs_of` tells it."""


@dataclass(frozen=True, slots=True)
class ShownKnob:
    """A knob on the page: its field, and the words beside it."""

    knob: Knob
    field: Field
    takes: str
    default: str


def shape_of_knobs(knobs: Sequence[Knob]) -> Shape:
    """The form of the knobs of a plugin; of as many as a form may have."""
    return shape_of({"type": "object", "properties": {knob["name"]: _schema(knob) for knob in knobs[:MOST_FIELDS]}})


def shown_knobs(knobs: Sequence[Knob], shape: Shape, value: Any = None, problems: Sequence[Problem] = ()) -> Form:
    """The form with what each knob is at, and over it what somebody has typed."""
    return form_of(shape, {**values_of(knobs), **(value or {})}, [_at_its_field(one) for one in problems])


def beside(knobs: Sequence[Knob], form: Form) -> list[ShownKnob]:
    """Every knob with its field, in order."""
    by_name = {field.name: field for field in form.fields}
    known = [(one, by_name[f"/{one['name']}"]) for one in knobs[:MOST_FIELDS]]
    return [ShownKnob(one, field, _takes(one), _in_words(one, one["default"])) for one, field in known]


def values_of(knobs: Sequence[Knob]) -> dict[str, Any]:
    """What each is at."""
    return {knob["name"]: knob["value"] for knob in knobs}


@dataclass(frozen=True, slots=True)
class Filled:
    """What somebody wants, what could not be read of it, and what stands in the form."""

    turn: Turn
    problems: tuple[Problem, ...]
    value: Mapping[str, Any]


def turn_in(knobs: Sequence[Knob], shape: Shape, sent: Mapping[str, Sequence[str]]) -> Filled:
    """What a form that was sent back comes to: those knobs that it shows otherwise than it was filled with.

    So nobody turns back what somebody else turned meanwhile. A text may be empty; whatever else is, is the default.
    """
    read = filled_in(shape, sent)
    filled: dict[str, Any] = read.value
    before = _before(knobs, sent)
    values: dict[str, Any] = {}
    back: list[str] = []
    typed = dict(filled)
    for knob in knobs:
        name = knob["name"]
        if name not in filled:
            if f"/{name}" not in sent:
                continue
            if knob["type"] not in _TEXTS:
                if knob["set"]:
                    back.append(name)
                continue
            typed[name] = ""
        if _compared(typed[name]) != _compared(before.get(name)):
            values[name] = typed[name]
    return Filled(Turn(values, tuple(back)), read.problems, typed)


def _schema(knob: Knob) -> dict[str, Any]:
    """What the form is told of a knob. Whether a value is good is not asked of this, but of the knob itself."""
    kind, options, value = knob["type"], knob["options"], knob["value"]
    hints: dict[str, Any] = {"help": knob["description"]}
    schema: dict[str, Any] = {**knob["accepts"], "title": knob["label"] or knob["name"], "x-ui": hints}
    if knob["default"] is not None:
        schema["default"] = knob["default"]
    if kind in _SLIDERS and _on_a_step(value, options):
        hints["widget"] = "range"
        schema["multipleOf"] = options["step"]
    elif kind == "enum":
        hints["enum_labels"] = options.get("labels") or {}
        hints["placeholder"] = f"Default ({_in_words(knob, knob['default'])})" if knob["default"] is not None else ""
    elif kind == "multiline" or (isinstance(value, str) and "\n" in value):
        hints["widget"] = "textarea"
    elif kind == "model_alias":
        hints["placeholder"] = "none"
    return schema


def _on_a_step(value: Any, options: Mapping[str, Any]) -> bool:
    """Whether a slider can stand at a value: one that cannot would move it, and be saved so."""
    step, low, high = options.get("step"), options.get("min"), options.get("max")
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in (value, step, low, high)):
        return False
    if not step or not low <= value <= high:
        return False
    steps = (value - low) / step
    return abs(steps - round(steps)) < 1e-9


def _before(knobs: Sequence[Knob], sent: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    try:
        told = json.loads(sent[SHOWN][-1])
    except (KeyError, IndexError, ValueError, RecursionError):
        return values_of(knobs)
    return cast("dict[str, Any]", told) if isinstance(told, dict) else values_of(knobs)


def _compared(value: Any) -> str:
    """A value as one that forms can tell apart: they have one way to end a line, and nothing is an empty text."""
    plain = value.replace("\r\n", "\n") if isinstance(value, str) else value
    return json.dumps("" if plain is None else plain, sort_keys=True)


def _at_its_field(problem: Problem) -> Problem:
    return Problem(problem.path.removeprefix("knobs."), problem.message, problem.hint, problem.code)


def _takes(knob: Knob) -> str:
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


def _in_words(knob: Knob, value: Any) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, bool):
        return "on" if value else "off"
    labels: Mapping[str, str] = knob["options"].get("labels") or {}
    text = labels.get(value, value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"

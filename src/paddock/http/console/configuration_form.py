"""What a plugin needs on this machine as a form, and what somebody filled in as a change. Pure.

What is secret is never in the form: it is left as it is where its field stays empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.core.errors import Problem
from paddock.core.schema import join_path
from paddock.core.schema_walk import as_object
from paddock.host.plugin_values import Configuration, FieldState
from paddock.http.console.forms.fields import Field, Form, form_of
from paddock.http.console.forms.filled import File, filled_in
from paddock.http.console.forms.shape import Shape, shape_of

SHOWN: Final = "_shown"  # what the form was filled with, as JSON: only what differs from it is changed


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field on the page, and how it stands."""

    state: FieldState
    field: Field
    again: bool = False  # whether somebody typed a secret that has to be typed again


@dataclass(frozen=True, slots=True)
class Filled:
    """What somebody wants, what could not be read of it, and what may stand in the form again."""

    values: Mapping[str, Any]
    forgotten: tuple[str, ...]
    problems: tuple[Problem, ...]
    shown: Mapping[str, Any]
    typed_unseen: frozenset[str]


def shape_of_fields(known: Configuration) -> Shape:
    """The form of all fields. Nothing is required of it: a plugin can be configured bit by bit."""
    declared = as_object(known.schema.get("properties")) or {}
    given = {one.field.name: _schema(one, declared.get(one.field.name)) for one in known.fields}
    return shape_of({**known.schema, "type": "object", "required": [], "properties": given})


def filled_form(known: Configuration, shape: Shape, value: Any = None, problems: Sequence[Problem] = ()) -> Form:
    """The form with what people may see of the values, and over it what somebody has typed."""
    return form_of(shape, {**values_of(known), **(value or {})}, problems)


def beside(known: Configuration, form: Form, typed_unseen: frozenset[str] = frozenset()) -> list[ShownField]:
    """Every field with how it stands, in order."""
    return [
        ShownField(state, field, state.field.name in typed_unseen)
        for state, field in zip(known.fields, form.fields, strict=False)
    ]


def values_of(known: Configuration) -> dict[str, Any]:
    """What is set, as far as people may see it."""
    return {one.field.name: one.value for one in known.fields if one.set and not one.hidden}


def change_in(
    known: Configuration, shape: Shape, sent: Mapping[str, Sequence[str]], files: Mapping[str, File] | None = None
) -> Filled:
    """What a form that was sent back comes to: those fields that it shows otherwise than it was filled with."""
    read = filled_in(shape, sent, files)
    filled: dict[str, Any] = read.value
    before = _before(known, sent)
    unseen = frozenset(one.field.name for one in known.fields if one.hidden or one.field.secret)
    values = {
        name: value
        for name, value in filled.items()
        if value is not None and (name in unseen or _differs(value, before.get(name, _default(shape, name))))
    }
    # Only what stood there can have been taken away.
    forgotten = [name for name in before if name not in unseen and filled.get(name) is None]
    shown = {name: value for name, value in filled.items() if name not in unseen}
    told = tuple(_without_what_was_typed(one, unseen) for one in read.problems)
    return Filled(values, tuple(forgotten), told, shown, unseen & filled.keys())


def _schema(state: FieldState, declared: object) -> dict[str, Any]:
    """What the form is told of a field. Whether a value is good is not asked of this."""
    schema = dict(as_object(declared) or {})
    hints: dict[str, Any] = dict(as_object(schema.get("x-ui")) or {})
    if state.hidden or state.field.secret:
        schema.pop("default", None)
        schema |= {"x-secret": True}
        if state.field.takes_text:  # others, such as a list, are typed as JSON, and not shown again either
            for word in ("enum", "oneOf", "anyOf", "$ref"):
                schema.pop(word, None)
            schema |= {"type": "string"}
    if state.set and state.hidden:
        hints["placeholder"] = "Set. Type here to replace it."
    return {**schema, "x-ui": hints}


def _default(shape: Shape, name: str) -> Any:
    return next((one.schema.get("default") for field, one in shape.fields if field == name), None)


def _before(known: Configuration, sent: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    try:
        told = json.loads(sent[SHOWN][-1])
    except (KeyError, IndexError, ValueError, RecursionError):
        return values_of(known)
    return cast("dict[str, Any]", told) if isinstance(told, dict) else values_of(known)


def _differs(one: Any, other: Any) -> bool:
    def plain(value: Any) -> str:
        return json.dumps(value.replace("\r\n", "\n") if isinstance(value, str) else value, sort_keys=True)

    return plain(one) != plain(other)


def _without_what_was_typed(problem: Problem, unseen: frozenset[str]) -> Problem:
    """A mistake in reading something that nobody may see: what is wrong with JSON quotes a little of it."""
    within = any(problem.path == at or problem.path.startswith((f"{at}.", f"{at}[")) for at in map(_place, unseen))
    return Problem(problem.path, "cannot be read", problem.hint, problem.code) if within else problem


def _place(name: str) -> str:
    return join_path([name])

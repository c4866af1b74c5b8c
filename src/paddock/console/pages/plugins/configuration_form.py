"""What a plugin needs on this machine as a form, and what somebody filled in as a change. Pure.

What is secret is never in the form: it is left as it is where its field stays empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import FormField, FormView, build_form
from paddock.console.forms.parse import FormFile, parse_fields
from paddock.core.errors import Problem
from paddock.core.schema.compile import join_path
from paddock.core.schema.traversal import as_object
from paddock.host.plugins.config import FieldState, PluginConfiguration

INITIAL_VALUES_FIELD: Final = "_shown"  # what the form was filled with, as JSON: only what differs from it is changed


@dataclass(frozen=True, slots=True)
class ConfigurationFieldView:
    """A field on the page, and how it stands."""

    state: FieldState
    field: FormField
    again: bool = False  # whether somebody typed a secret that has to be typed again


@dataclass(frozen=True, slots=True)
class ConfigurationEdit:
    """What somebody wants, what could not be read of it, and what may stand in the form again."""

    values: Mapping[str, Any]
    cleared: tuple[str, ...]
    problems: tuple[Problem, ...]
    shown: Mapping[str, Any]
    typed_secrets: frozenset[str]


def build_configuration_control(known: PluginConfiguration) -> FormControl:
    """The form of all fields. Nothing is required of it: a plugin can be configured bit by bit."""
    declared = as_object(known.schema.get("properties")) or {}
    given = {one.field.name: _field_schema(one, declared.get(one.field.name)) for one in known.fields}
    return build_control({**known.schema, "type": "object", "required": [], "properties": given})


def build_configuration_form(
    known: PluginConfiguration, shape: FormControl, value: Any = None, problems: Sequence[Problem] = ()
) -> FormView:
    """The form with what people may see of the values, and over it what somebody has typed."""
    return build_form(shape, {**visible_values(known), **(value or {})}, problems)


def build_field_views(
    known: PluginConfiguration, form: FormView, typed_unseen: frozenset[str] = frozenset()
) -> list[ConfigurationFieldView]:
    """Every field with how it stands, in order."""
    return [
        ConfigurationFieldView(state, field, state.field.name in typed_unseen)
        for state, field in zip(known.fields, form.fields, strict=False)
    ]


def visible_values(known: PluginConfiguration) -> dict[str, Any]:
    """What is set, as far as people may see it."""
    return {one.field.name: one.value for one in known.fields if one.set and not one.hidden}


def parse_configuration_form(
    known: PluginConfiguration,
    shape: FormControl,
    sent: Mapping[str, Sequence[str]],
    files: Mapping[str, FormFile] | None = None,
) -> ConfigurationEdit:
    """What a form that was sent back comes to: those fields that it shows otherwise than it was filled with."""
    read = parse_fields(shape, sent, files)
    filled: dict[str, Any] = read.value
    before = _initial_values(known, sent)
    unseen = frozenset(one.field.name for one in known.fields if one.hidden or one.field.secret)
    values = {
        name: value
        for name, value in filled.items()
        if value is not None and (name in unseen or _differs(value, before.get(name, _field_default(shape, name))))
    }
    # Only what stood there can have been taken away.
    forgotten = [name for name in before if name not in unseen and filled.get(name) is None]
    shown = {name: value for name, value in filled.items() if name not in unseen}
    told = tuple(_redact_problem(one, unseen) for one in read.problems)
    return ConfigurationEdit(values, tuple(forgotten), told, shown, unseen & filled.keys())


def _field_schema(state: FieldState, declared: object) -> dict[str, Any]:
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


def _field_default(shape: FormControl, name: str) -> Any:
    return next((one.schema.get("default") for field, one in shape.fields if field == name), None)


def _initial_values(known: PluginConfiguration, sent: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    try:
        told = json.loads(sent[INITIAL_VALUES_FIELD][-1])
    except (KeyError, IndexError, ValueError, RecursionError):
        return visible_values(known)
    return cast("dict[str, Any]", told) if isinstance(told, dict) else visible_values(known)


def _differs(one: Any, other: Any) -> bool:
    def plain(value: Any) -> str:
        return json.dumps(value.replace("\r\n", "\n") if isinstance(value, str) else value, sort_keys=True)

    return plain(one) != plain(other)


def _redact_problem(problem: Problem, unseen: frozenset[str]) -> Problem:
    """A mistake in reading something that nobody may see: what is wrong with JSON quotes a little of it."""
    within = any(problem.path == at or problem.path.startswith((f"{at}.", f"{at}[")) for at in map(_field_path, unseen))
    return Problem(problem.path, "cannot be read", problem.hint, problem.code) if within else problem


def _field_path(name: str) -> str:
    return join_path([name])

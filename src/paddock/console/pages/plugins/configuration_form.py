"""The configuration form of a plugin, and the change that a submitted form makes. Pure.

Secrets are never in the form: an empty field leaves them unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.console.forms.controls import FormControl, build_control
from paddock.console.forms.fields import FormField, FormView, build_form
from paddock.console.forms.parse import FormFile, parse_fields
from paddock.core.errors import Problem
from paddock.core.schema.compile import join_path
from paddock.core.schema.traversal import as_object
from paddock.host.plugins.configuration.config import FieldState, PluginConfiguration

INITIAL_VALUES_FIELD: Final = "_shown"  # the initial values as JSON; only differences are changed


class ConfigurationFieldView(Struct, frozen=True):
    """A field on the page, with its state."""

    state: FieldState
    field: FormField
    again: bool = False  # whether a secret was typed and must be typed again


class ConfigurationEdit(Struct, frozen=True):
    """The requested change, its problems, and the values to show in the form again."""

    values: Mapping[str, Any]
    cleared: tuple[str, ...]
    problems: tuple[Problem, ...]
    shown: Mapping[str, Any]
    typed_secrets: frozenset[str]


def build_configuration_control(configuration: PluginConfiguration) -> FormControl:
    """Build the control of all fields. None is required: a plugin can be configured step by step."""
    declared = as_object(configuration.schema.get("properties")) or {}
    properties = {
        state.field.name: _field_schema(state, declared.get(state.field.name)) for state in configuration.fields
    }
    return build_control({**configuration.schema, "type": "object", "required": [], "properties": properties})


def build_configuration_form(
    configuration: PluginConfiguration, shape: FormControl, value: Any = None, problems: Sequence[Problem] = ()
) -> FormView:
    """Build the form with the visible values, overlaid by typed ones."""
    return build_form(shape, {**visible_values(configuration), **(value or {})}, problems, id_prefix="c")


def build_field_views(
    configuration: PluginConfiguration, form: FormView, typed_secrets: frozenset[str] = frozenset()
) -> list[ConfigurationFieldView]:
    """Return every field with its state, in order."""
    return [
        ConfigurationFieldView(state, field, state.field.name in typed_secrets)
        for state, field in zip(configuration.fields, form.fields, strict=False)
    ]


def visible_values(configuration: PluginConfiguration) -> dict[str, Any]:
    """Return the set values that people may see."""
    return {state.field.name: state.value for state in configuration.fields if state.set and not state.hidden}


def parse_configuration_form(
    configuration: PluginConfiguration,
    shape: FormControl,
    texts: Mapping[str, Sequence[str]],
    files: Mapping[str, FormFile] | None = None,
) -> ConfigurationEdit:
    """Parse a submitted form: only fields that differ from the initial values are changed."""
    parsed = parse_fields(shape, texts, files)
    filled: dict[str, Any] = parsed.value
    initial = _initial_values(configuration, texts)
    secret_names = frozenset(item.field.name for item in configuration.fields if item.hidden or item.field.secret)
    values = {
        name: value
        for name, value in filled.items()
        if value is not None
        and (name in secret_names or _differs(value, initial.get(name, _field_default(shape, name))))
    }
    # Only a value that was shown can have been removed.
    cleared = [name for name in initial if name not in secret_names and filled.get(name) is None]
    shown = {name: value for name, value in filled.items() if name not in secret_names}
    problems = tuple(_redact_problem(item, secret_names) for item in parsed.problems)
    return ConfigurationEdit(values, tuple(cleared), problems, shown, secret_names & filled.keys())


def _field_schema(state: FieldState, declared: object) -> dict[str, Any]:
    """Return the schema for a field's control. It does not validate values."""
    schema = dict(as_object(declared) or {})
    hints: dict[str, Any] = dict(as_object(schema.get("x-ui")) or {})
    if state.hidden or state.field.secret:
        schema.pop("default", None)
        schema |= {"x-secret": True}
        if state.field.takes_text:  # others, such as lists, are typed as JSON, and not shown again either
            for keyword in ("enum", "oneOf", "anyOf", "$ref"):
                schema.pop(keyword, None)
            schema |= {"type": "string"}
    if state.set and state.hidden:
        hints["placeholder"] = "Set. Type here to replace it."
    return {**schema, "x-ui": hints}


def _field_default(shape: FormControl, name: str) -> Any:
    return next((control.schema.get("default") for field, control in shape.fields if field == name), None)


def _initial_values(configuration: PluginConfiguration, texts: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    try:
        initial = json.loads(texts[INITIAL_VALUES_FIELD][-1])
    except (KeyError, IndexError, ValueError, RecursionError):
        return visible_values(configuration)
    return cast("dict[str, Any]", initial) if isinstance(initial, dict) else visible_values(configuration)


def _differs(typed: Any, initial: Any) -> bool:
    def normalized(value: Any) -> str:
        return json.dumps(value.replace("\r\n", "\n") if isinstance(value, str) else value, sort_keys=True)

    return normalized(typed) != normalized(initial)


def _redact_problem(problem: Problem, secret_names: frozenset[str]) -> Problem:
    """Redact a parse problem of a secret: JSON errors quote a part of the text."""
    is_secret = any(
        problem.path == path or problem.path.startswith((f"{path}.", f"{path}["))
        for path in map(_field_path, secret_names)
    )
    return replace(problem, message="cannot be read") if is_secret else problem


def _field_path(name: str) -> str:
    return join_path([name])

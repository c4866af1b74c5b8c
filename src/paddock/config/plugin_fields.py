"""The declared fields of a plugin's system configuration, and the parsing of typed values for them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from paddock.config.variables import SECRET_PREFIX, is_reference
from paddock.core.errors import Invalid, NotFound, Problem
from paddock.core.printable import printable
from paddock.core.schema.compile import CompiledSchema, compile_schema, join_path
from paddock.manifest.dialects.credential_patterns import is_secret_name

Schema = Mapping[str, Any]

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SECRET_REFERENCE_START = "${" + SECRET_PREFIX
_TYPE_TEXT = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON list",
    "object": "a JSON object",
    "null": "nothing",
}


class PluginField(Struct, frozen=True):
    """One field that the plugin declares."""

    name: str
    description: str
    required: bool
    secret: bool
    types: tuple[str, ...]
    choices: tuple[str, ...]

    @property
    def takes_text(self) -> bool:
        return not self.types or "string" in self.types

    @property
    def in_words(self) -> str:
        """What a value looks like."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return " or ".join(_TYPE_TEXT.get(one, one) for one in self.types) or "any value"


def declared_fields(schema: Schema | None) -> tuple[PluginField, ...]:
    """The fields that a `system_config_schema` declares, in its order."""
    declared = (schema or {}).get("properties", {})
    required: Any = (schema or {}).get("required", [])
    return tuple(
        _read_field(
            name, cast("Schema", field_schema) if isinstance(field_schema, Mapping) else {}, required=name in required
        )
        for name, field_schema in cast("Mapping[str, Any]", declared).items()
    )


def require_field(schema: Schema | None, plugin: str, name: str) -> PluginField:
    """The declared field of that name.

    Raises:
        NotFound: The plugin declares none such; the hint names those that it does.
    """
    fields = {field.name: field for field in declared_fields(schema)}
    if name in fields:
        return fields[name]
    near = difflib.get_close_matches(name, fields, n=1)
    names = printable(", ".join(fields), 400)
    hint = f"did you mean {printable(near[0])}?" if near else f"it declares: {names}" if names else ""
    raise NotFound(
        f"{plugin} declares no configuration field {printable(name)!r}", code="config.no_such_field", hint=hint
    )


def parse_field_value(schema: Schema, field: PluginField, text: str, *, variables: bool) -> Any:
    """Parse a typed text for this field, to the form that `local.toml` stores.

    A text that is one `${secret:NAME}`, or with `variables` one `${NAME}`, stays a reference; any other `${` is kept as
    typed.

    Raises:
        Invalid: It does not fit what the plugin declares. Repeats a typed number at most: a text may be a secret.
    """
    if field.takes_text and is_reference(text) and (variables or text.startswith(_SECRET_REFERENCE_START)):
        return text
    validator = _field_validator(schema, field.name)
    for value in _interpretations(text, takes_text=field.takes_text):
        if not _holds_null(value) and validator.is_valid({field.name: value}):
            return _escape_references(value)
    expected = Problem(printable(field.name), f"expected {printable(field.in_words, 300)}", code="config.type")
    raise Invalid(
        f"the value does not fit what the plugin declares for {printable(field.name)}",
        _violated_constraints(validator, field, text) or [expected],
        code="config.plugin_invalid",
    )


def _violated_constraints(validator: CompiledSchema, field: PluginField, text: str) -> list[Problem]:
    """The problems of a number out of its limits. Those of other values might repeat a secret."""
    if field.secret or field.takes_text:
        return []
    for value in _interpretations(text, takes_text=False):
        problems = validator.errors({field.name: value}) if isinstance(value, int | float) else []
        if not any(problem.code == "type" for problem in problems):
            return problems
    return []


def prepare_for_file(schema: Schema, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Convert values to the form that `local.toml` stores, and list every mistake with its path.

    A text is kept as typed, but for a whole `${secret:NAME}`. Problems of secret fields do not repeat the value.
    """
    fields = {field.name: field for field in declared_fields(schema)}
    stored: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            problems.append(
                Problem(join_path([name]), "the plugin declares no such field", code="config.no_such_field")
            )
        elif (
            isinstance(value, str)
            and is_reference(value)
            and value.startswith(_SECRET_REFERENCE_START)
            and field.takes_text
        ):
            stored[name] = value
        elif _holds_null(value):
            problems.append(Problem(join_path([name]), "may not hold null", code="config.type"))
        elif field_problems := _field_validator(schema, name).errors({name: value}):
            problems += [_redact_problem(one) for one in field_problems] if field.secret else field_problems
        else:
            stored[name] = _escape_references(value)
    return stored, problems


def _redact_problem(problem: Problem) -> Problem:
    """Redact a problem of a secret field: other messages may quote the value."""
    if problem.code == "type":
        return problem
    return Problem(problem.path, "does not fit what the plugin declares for this field", code=problem.code)


def _read_field(name: str, schema: Schema, *, required: bool) -> PluginField:
    types: Any = schema.get("type", ())
    choices: Any = schema.get("enum", ())
    description: Any = schema.get("description") or schema.get("title") or ""
    secret_by_schema = (
        schema.get("x-secret") is True or schema.get("writeOnly") is True or schema.get("format") == "password"
    )
    secret_by_name = "x-secret" not in schema and is_secret_name(name)
    return PluginField(
        name,
        str(description),
        required and "default" not in schema,
        secret_by_schema or secret_by_name,
        (types,) if isinstance(types, str) else tuple(map(str, types)),
        tuple(choice if isinstance(choice, str) else json.dumps(choice) for choice in choices),
    )


def _field_validator(schema: Schema, name: str) -> CompiledSchema:
    """The whole schema narrowed to one field, so that its references still resolve."""
    narrowed = {key: value for key, value in schema.items() if key in ("$schema", "$id", "$defs", "definitions")}
    return compile_schema({**narrowed, "type": "object", "properties": {name: schema["properties"][name]}}, name)


def _interpretations(text: str, *, takes_text: bool) -> Iterator[Any]:
    """The possible meanings of a text, the likeliest first."""
    if takes_text:
        yield text
    if text.strip().lower() in _BOOLEANS:
        yield _BOOLEANS[text.strip().lower()]
    try:
        yield json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _holds_null(value: Any) -> bool:
    """Whether the value contains null, which TOML cannot express."""
    if isinstance(value, dict):
        return any(_holds_null(part) for part in cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return any(_holds_null(part) for part in cast("list[Any]", value))
    return value is None


def _escape_references(value: Any) -> Any:
    """Escape each `${` in the texts of a value, so that it is read back as typed."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: _escape_references(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_escape_references(part) for part in cast("list[Any]", value)]
    return value

"""Building blocks for JSON schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

ANY: Schema = {}
TEXT: Schema = {"type": "string"}
NON_NEGATIVE_INT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
DATE_TIME: Schema = {"type": "string", "format": "date-time"}
TEXTS: Schema = {"type": "array", "items": TEXT}
BINARY: Schema = {"type": "string", "format": "binary"}
OBJECT: Schema = {"type": "object"}
"""An object whose members are defined elsewhere: by a plugin, a rule, a schema."""

BOOLEAN_TEXT: Schema = {"type": "string", "enum": ["1", "true", "yes", "0", "false", "no"]}
"""A boolean query parameter."""


def object_schema(fields: Mapping[str, Schema], *, optional: Iterable[str] = (), description: str = "") -> Schema:
    """Build the schema of a response object. Later versions may add members."""
    left_out = set(optional)
    described_by = {"description": description} if description else {}
    required = [name for name in fields if name not in left_out]
    return {"type": "object", **described_by, "properties": dict(fields), "required": required}


def body_schema(fields: Mapping[str, Schema], *, required: Iterable[str] = (), example: Mapping[str, Any]) -> Schema:
    """Build the schema of a request body; unknown members are rejected, so that typos are reported."""
    return {
        "type": "object",
        "properties": {name: _without_nul(schema) for name, schema in fields.items()},
        "required": list(required),
        "additionalProperties": False,
        "examples": [dict(example)],
    }


def _without_nul(schema: Schema) -> Schema:
    """Forbid NUL in free text: databases cannot store it."""
    is_free_text = schema.get("type") == "string" and not {"enum", "pattern", "format"} & schema.keys()
    return {**schema, "pattern": "^[^\\u0000]*$"} if is_free_text else schema


def describe(schema: Schema, description: str) -> Schema:
    """Add a description to a schema."""
    return {**schema, "description": description}


def enum_of(values: Iterable[str]) -> Schema:
    """Build the schema of a text with fixed values."""
    return {"type": "string", "enum": list(values)}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def nullable(schema: Schema) -> Schema:
    """Extend a schema by null."""
    type_name = schema.get("type")
    if isinstance(type_name, str) and "enum" not in schema:
        return {**schema, "type": [type_name, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def ref(component: str) -> Schema:
    """Reference a component schema by name."""
    return {"$ref": f"#/components/schemas/{component}"}

"""The few shapes that schemas are built from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

ANY: Schema = {}
TEXT: Schema = {"type": "string"}
NON_NEGATIVE_INT: Schema = {"type": "integer", "minimum": 0}
BOOLEAN: Schema = {"type": "boolean"}
DATE_TIME: Schema = {"type": "string", "format": "date-time"}
TEXTS: Schema = {"type": "array", "items": TEXT}
BINARY: Schema = {"type": "string", "format": "binary"}
OBJECT: Schema = {"type": "object"}
"""Whose members somebody else decides about: a plugin, a rule, a schema."""

BOOLEAN_TEXT: Schema = {"type": "string", "enum": ["1", "true", "yes", "0", "false", "no"]}
"""A query parameter that says yes or no."""


def object_schema(fields: Mapping[str, Schema], *, optional: Iterable[str] = (), says: str = "") -> Schema:
    """An object with these members, all of them there but the optional ones. More may come with later versions."""
    left_out = set(optional)
    described = {"description": says} if says else {}
    required = [name for name in fields if name not in left_out]
    return {"type": "object", **described, "properties": dict(fields), "required": required}


def body_schema(fields: Mapping[str, Schema], *, required: Iterable[str] = (), example: Mapping[str, Any]) -> Schema:
    """What somebody sends: these members and no others, so that a slip of the pen is told and not ignored."""
    return {
        "type": "object",
        "properties": {name: _without_nul(schema) for name, schema in fields.items()},
        "required": list(required),
        "additionalProperties": False,
        "examples": [dict(example)],
    }


def _without_nul(schema: Schema) -> Schema:
    """The same, where it is a text of any kind, without NUL: no database keeps one."""
    free = schema.get("type") == "string" and not {"enum", "pattern", "format"} & schema.keys()
    return {**schema, "pattern": "^[^\\u0000]*$"} if free else schema


def describe(schema: Schema, words: str) -> Schema:
    """The same with a description."""
    return {**schema, "description": words}


def enum_of(words: Iterable[str]) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(words)}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def nullable(schema: Schema) -> Schema:
    """That, or null."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def ref(component: str) -> Schema:
    """A schema by its name in `components.py`."""
    return {"$ref": f"#/components/schemas/{component}"}

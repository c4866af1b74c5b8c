"""JSON Schemas generated from types: those of TypedDicts are named components, all others stand inline.

The annotations of a TypedDict's members are described in `core/schema_annotations.py`. Its docstring is the
description of the component, and its name without the suffix `Json` is the component's name.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import Enum
from inspect import cleandoc
from typing import Annotated, Any, Literal, NewType, NotRequired, Required, TypeAlias, Union, cast

from paddock.core.schema_annotations import MemberConstraint

Schema: TypeAlias = Mapping[str, Any]
_SchemaOfTypedDict: TypeAlias = Callable[[type[Any]], Schema]

_NO_NUL = "^[^\\u0000]*$"
_NULL: Schema = {"type": "null"}
_ATOMS: dict[Any, Schema] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): _NULL,
    bytes: {"type": "string", "format": "binary"},
    datetime: {"type": "string", "format": "date-time"},
}
_ARRAYS = (list, tuple, set, frozenset, Sequence, Iterable, AbstractSet)
_OBJECTS = (dict, Mapping)


class SchemaComponents:
    """Generates schemas of responses and collects the components that they refer to."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._types: dict[str, type[Any]] = {}

    def schema_of(self, hint: Any) -> Schema:
        """Return the schema of a type; later versions may add members to its objects.

        Raises:
            TypeError: the type has no JSON Schema, or two TypedDicts have one name.
        """
        return _schema_of(hint, self._reference)

    def _reference(self, typed_dict: type[Any]) -> Schema:
        name = component_name(typed_dict)
        if self._types.setdefault(name, typed_dict) is not typed_dict:
            raise TypeError(f"two components are named {name}: {self._types[name]!r} and {typed_dict!r}")
        if name not in self.schemas:
            self.schemas[name] = {}  # it may refer to itself
            self.schemas[name] = _object_schema(typed_dict, self._reference)
        return reference(name)


def body_schema(body_type: Any, example: Mapping[str, Any]) -> Schema:
    """Return the schema of a request body; unknown members of a TypedDict are rejected, so that typos are reported."""
    if not typing.is_typeddict(body_type):
        return {**_schema_of(body_type, _no_nested_body), "examples": [example]}
    schema = _object_schema(body_type, _no_nested_body)
    members = cast("Mapping[str, Schema]", schema["properties"])
    return {
        **schema,
        "properties": {name: _without_nul(member) for name, member in members.items()},
        "additionalProperties": False,
        "examples": [example],
    }


def component_name(typed_dict: type[Any]) -> str:
    """Return the name of a TypedDict's component: `WebhookJson` describes a `Webhook`."""
    return typed_dict.__name__.removesuffix("Json")


def reference(component: str) -> Schema:
    """Refer to a component by name."""
    return {"$ref": f"#/components/schemas/{component}"}


def _schema_of(hint: Any, of_typed_dict: _SchemaOfTypedDict) -> Schema:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(_schema_of(arguments[0], of_typed_dict), arguments[1:])
    if origin in (Required, NotRequired):
        return _schema_of(arguments[0], of_typed_dict)
    if origin in (Union, types.UnionType):
        return _union([_schema_of(choice, of_typed_dict) for choice in arguments])
    if origin is Literal:
        return _enum(arguments)
    if isinstance(hint, NewType):
        return _schema_of(hint.__supertype__, of_typed_dict)
    if typing.is_typeddict(hint):
        return of_typed_dict(hint)
    kind = origin or hint
    if kind in _ARRAYS:
        return {"type": "array", "items": _schema_of(arguments[0], of_typed_dict)}
    if kind in _OBJECTS:
        values = _schema_of(arguments[1], of_typed_dict)
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum([member.value for member in hint])
    if kind in _ATOMS:
        return _ATOMS[kind]
    raise TypeError(f"{hint!r} has no JSON Schema")


def _object_schema(typed_dict: type[Any], of_typed_dict: _SchemaOfTypedDict) -> Schema:
    hints = typing.get_type_hints(typed_dict, include_extras=True)
    doc = typed_dict.__doc__
    return {
        "type": "object",
        **({"description": cleandoc(doc).replace("\n", " ")} if doc else {}),
        "properties": {name: _schema_of(hint, of_typed_dict) for name, hint in hints.items()},
        "required": [name for name, hint in hints.items() if _is_required(typed_dict, name, hint)],
    }


def _is_required(typed_dict: Any, name: str, hint: Any) -> bool:
    """Return whether a member is required; `__required_keys__` misses markers in annotations that are kept as text."""
    marker = typing.get_origin(hint)
    return marker is Required or (marker is not NotRequired and name in typed_dict.__required_keys__)


def _annotated(schema: Schema, extras: Iterable[Any]) -> Schema:
    keywords: dict[str, Any] = {}
    for extra in extras:
        if isinstance(extra, str):
            keywords["description"] = extra
        elif isinstance(extra, MemberConstraint):
            keywords |= extra.keywords()
    return {**schema, **keywords}


def _union(choices: list[Schema]) -> Schema:
    """Return the schema of a value that is one of `choices`; with one `type` for all where that says the same."""
    constrained = [choice for choice in choices if len(choice) > 1]
    by_type = all(isinstance(choice.get("type"), str) and "enum" not in choice for choice in choices)
    if by_type and len(constrained) <= 1 and (not constrained or choices[1:] == [_NULL]):
        return {**choices[0], "type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}


def _enum(values: Sequence[Any]) -> Schema:
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r}: only texts can be choices")
    return {"type": "string", "enum": list(values)}


def _without_nul(schema: Schema) -> Schema:
    """Forbid NUL in free text, also within lists: databases cannot store it. A secret is sealed first, and no error may
    quote it."""
    if {"enum", "format", "writeOnly"} & schema.keys():
        return schema
    if "items" in schema:
        return {**schema, "items": _without_nul(schema["items"])}
    is_text = schema.get("type") == "string" or schema.get("type") == ["string", "null"]
    return {**schema, "pattern": _NO_NUL} if is_text else schema


def _no_nested_body(typed_dict: type[Any]) -> Schema:
    raise TypeError(f"{typed_dict!r}: a request body has no objects of ours inside")

"""Traverses a JSON Schema: its subschemas, and the targets of its local references.

Reads the schemas of every draft alike: a keyword that a draft does not know is still traversed, because a limit that
checks too much is safe and one that checks too little is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote

# A keyword's subschema applies to the same value, to a part of it, or (definitions) to nothing by itself.
SAME_VALUE_KEYWORDS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "$ref"}
)
DEFINITION_KEYWORDS = frozenset({"$defs", "definitions", "contentSchema"})

SINGLE_SCHEMA_KEYWORDS = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
SCHEMA_MAP_KEYWORDS = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
PART_KEYWORDS = (
    (SINGLE_SCHEMA_KEYWORDS | SCHEMA_LIST_KEYWORDS | SCHEMA_MAP_KEYWORDS) - SAME_VALUE_KEYWORDS - DEFINITION_KEYWORDS
)
REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")

PathPart = str | int
_MAX_INDEX_DIGITS = 9


def is_schema(value: object) -> bool:
    """A schema is an object or a boolean."""
    return isinstance(value, (dict, bool))


def as_object(value: object) -> dict[str, Any] | None:
    """The value as an object with text keys, or None when it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def object_or_empty(value: object) -> dict[str, Any]:
    """The value as an object with text keys, or an empty one when it is something else."""
    return as_object(value) or {}


def subschemas(schema: object) -> Iterator[tuple[tuple[PathPart, ...], Any]]:
    """Every direct subschema with the steps that lead to it, such as `("properties", "name")`."""
    if not isinstance(schema, dict):
        return
    for keyword, value in cast("dict[str, Any]", schema).items():
        if keyword in SINGLE_SCHEMA_KEYWORDS and is_schema(value):
            yield (keyword,), value
        elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            for index, item in enumerate(cast("list[Any]", value)):
                if is_schema(item):
                    yield (keyword, index), item
        elif keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            for name, item in cast("dict[str, Any]", value).items():
                if is_schema(item):
                    yield (keyword, name), item


def references(schema: object) -> Iterator[tuple[str, str]]:
    """The (keyword, target) pairs by which this one schema refers to another."""
    if isinstance(schema, dict):
        keywords = cast("dict[str, Any]", schema)
        for keyword in REFERENCE_KEYWORDS:
            target = keywords.get(keyword)
            if isinstance(target, str):
                yield keyword, target


def starts_resource(schema: object) -> bool:
    """Whether local references inside this schema are relative to it and not to the document."""
    if not isinstance(schema, dict):
        return False
    keywords = cast("dict[str, Any]", schema)
    resource_id = keywords.get("$id", keywords.get("id"))
    return isinstance(resource_id, str) and bool(resource_id) and not resource_id.startswith("#")


def resolve_path(root: object, parts: tuple[PathPart, ...] | list[PathPart]) -> Any:
    """The value at `parts` below `root`.

    Raises:
        LookupError: Nothing is there.
    """
    current: Any = root
    for part in parts:
        if isinstance(current, dict):
            current = cast("dict[str, Any]", current)[str(part)]
        elif isinstance(current, list):
            index = str(part)
            is_index = index.isdecimal() and len(index) <= _MAX_INDEX_DIGITS  # int() refuses thousands of digits
            current = cast("list[Any]", current)[int(index)] if is_index else _raise_lookup_error(part)
        else:
            _raise_lookup_error(part)
    return current


class ReferenceResolver:
    """Resolves the local references of one document.

    Anchors are collected once for each resource. Searching for each of them would let a few kilobytes of
    schema cost minutes. Resources are identified by `id`, so the document must outlive its resolver.
    """

    def __init__(self) -> None:
        self._anchors: dict[int, dict[str, Any]] = {}

    def resolve(self, root: object, reference: str) -> Any:
        """The target of a local reference (`#`, `#/$defs/x`, `#anchor`) inside the resource `root`.

        Raises:
            LookupError: It points at nothing.
        """
        fragment = unquote(reference[1:])
        if not fragment:
            return root
        if fragment.startswith("/"):
            return resolve_path(root, [step.replace("~1", "/").replace("~0", "~") for step in fragment[1:].split("/")])
        if id(root) not in self._anchors:
            self._anchors[id(root)] = _collect_anchors(root)
        return self._anchors[id(root)][fragment]


def _collect_anchors(root: object) -> dict[str, Any]:
    """The schemas of a resource that have an anchor; the first of a name counts."""
    anchors: dict[str, Any] = {}
    for schema in _resource_schemas(root):
        id_anchors = [
            name.removeprefix("#") for key in ("$id", "id") if str(name := schema.get(key, "")).startswith("#")
        ]
        for name in (schema.get("$anchor"), schema.get("$dynamicAnchor"), *id_anchors):
            if isinstance(name, str):
                anchors.setdefault(name, schema)
    return anchors


def _resource_schemas(root: object) -> Iterator[dict[str, Any]]:
    """Every schema object that belongs to the resource `root`, itself included."""
    pending: list[Any] = [root]
    while pending:
        schema = as_object(pending.pop())
        if schema is None:
            continue
        yield schema
        pending += [inner for _, inner in subschemas(schema) if not starts_resource(inner)]


def _raise_lookup_error(part: object) -> Any:
    raise LookupError(part)

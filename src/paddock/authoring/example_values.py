"""A value that fits a JSON Schema: the examples that it carries, or the smallest value made from its words. Pure.

Not every schema says enough: whoever asks checks the value against the schema, and an author who wants another one
writes `examples`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from paddock.core.errors import Invalid
from paddock.core.schema.compile import compile_schema

_MAX_DEPTH = 12
_FORMAT_EXAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ann@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uri-reference": "/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "duration": "PT1S",
    "regex": "a",
    "json-pointer": "/a",
}
# Texts for patterns: one of them fits most of those that people write.
_PATTERN_GUESSES = (
    *("a", "A", "1", "abc", "ABC", "a1", "0", "12", "123", "1.0.0", "2026-01-31", "#000000"),
    *("a-b", "a.b", "A.B", "/a", "d6"),
)
_ALL_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def generate_examples(schema: Any) -> list[Any]:
    """Values that fit: the examples of the schema that do, else one that was made; empty where none was found.

    Raises:
        Invalid: it is no schema.
    """
    compiled = compile_schema(schema)
    given: Any = cast("Mapping[str, Any]", schema).get("examples") if isinstance(schema, Mapping) else None
    written = [one for one in cast("list[Any]", given) if compiled.is_valid(one)] if isinstance(given, list) else []
    if written:
        return written
    made = _ExampleGenerator(cast("object", schema)).value(schema, 0)
    return [made] if compiled.is_valid(made) else []


class _ExampleGenerator:
    def __init__(self, root: object) -> None:
        self._root: Mapping[str, Any] = cast("dict[str, Any]", root) if isinstance(root, dict) else {}

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return {} if schema is True else None
        fields = self._merge_schema(cast("Mapping[str, Any]", schema), depth)
        for known in ("const", "default"):
            if known in fields:
                return fields[known]
        for several in ("examples", "enum"):
            if isinstance(fields.get(several), list) and fields[several]:
                return fields[several][0]
        for either in ("oneOf", "anyOf"):
            if isinstance(fields.get(either), list):
                return self._first_fitting(fields, either, depth)
        return self._generate(fields, depth)

    def _merge_schema(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """The schema with what it refers to and what all of it says, in one."""
        fields = dict(schema)
        parts: list[Any] = []
        reference = fields.pop("$ref", None)
        if isinstance(reference, str):
            parts.append(self._resolve_reference(reference))
        whole = fields.pop("allOf", None)
        parts += cast("list[Any]", whole) if isinstance(whole, list) else []
        for part in parts:
            if not isinstance(part, Mapping) or depth > _MAX_DEPTH:
                continue
            more = self._merge_schema(cast("Mapping[str, Any]", part), depth + 1)
            properties = {**more.get("properties", {}), **fields.get("properties", {})}
            required = [*more.get("required", []), *fields.get("required", [])]
            fields = {**more, **fields}
            fields |= {"properties": properties} if properties else {}
            fields |= {"required": required} if required else {}
        return fields

    def _resolve_reference(self, reference: str) -> Any:
        found: Any = self._root
        if not reference.startswith("#"):
            return {}
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
        return cast("object", found)

    def _first_fitting(self, fields: dict[str, Any], either: str, depth: int) -> Any:
        rest = {name: value for name, value in fields.items() if name != either}
        tried = [self.value({"allOf": [rest, part]}, depth + 1) for part in fields[either]]
        return next((one for one in tried if self._fits(fields, one)), tried[0] if tried else None)

    def _fits(self, fields: dict[str, Any], value: Any) -> bool:
        kept = {name: self._root[name] for name in ("$defs", "definitions") if name in self._root}
        try:
            return compile_schema({**kept, **fields}).is_valid(value)
        except Invalid:
            return False

    def _generate(self, fields: dict[str, Any], depth: int) -> Any:
        kinds = fields.get("type")
        kind = next(iter(cast("list[Any]", kinds)), None) if isinstance(kinds, list) else kinds
        if kind not in _ALL_TYPES:
            kind = "object" if "properties" in fields or "required" in fields else "string"
        match kind:
            case "object":
                return self._generate_object(fields, depth)
            case "array":
                item = fields.get("items", True)
                return [self.value(item, depth + 1) for _ in range(int(fields.get("minItems", 0)))]
            case "string":
                return self._generate_text(fields)
            case "integer" | "number":
                return _generate_number(fields, whole=kind == "integer")
            case "boolean":
                return False
            case _:
                return None

    def _generate_object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = fields.get("properties", {})
        made = {name: self.value(properties.get(name, {}), depth + 1) for name in fields.get("required", [])}
        for name in properties:
            if len(made) >= int(fields.get("minProperties", 0)):
                break
            made.setdefault(name, self.value(properties[name], depth + 1))
        return made

    def _generate_text(self, fields: dict[str, Any]) -> str:
        if fields.get("format") in _FORMAT_EXAMPLES:
            return _FORMAT_EXAMPLES[fields["format"]]
        shortest = int(fields.get("minLength", 0))
        if "pattern" in fields:
            tried = [*_PATTERN_GUESSES, *(guess * max(shortest, 1) for guess in ("a", "A", "1"))]
            return next((guess for guess in tried if self._fits(fields, guess)), "")
        return "a" * max(shortest, min(1, int(fields.get("maxLength", 1))))


def _generate_number(fields: dict[str, Any], *, whole: bool) -> float | int:
    """The number nearest to nothing that the bounds allow."""
    step: float = fields.get("multipleOf", 1 if whole else 0)
    low, high = fields.get("minimum", -math.inf), fields.get("maximum", math.inf)
    if "exclusiveMinimum" in fields:
        low = max(low, fields["exclusiveMinimum"] + (step or 1e-3))
    if "exclusiveMaximum" in fields:
        high = min(high, fields["exclusiveMaximum"] - (step or 1e-3))
    near = min(max(0, low), high)
    if step:
        near = math.ceil(near / step) * step
        near = near if near <= high else math.floor(high / step) * step
    return int(near) if whole else near

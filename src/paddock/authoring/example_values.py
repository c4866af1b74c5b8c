"""Example values for a JSON Schema: its own examples, or the smallest value that it describes. Pure.

Not every schema is specific enough: the caller validates the value, and an author who wants another one writes
`examples`.
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
# Candidates for patterns: one of them matches most patterns that people write.
_PATTERN_GUESSES = (
    *("a", "A", "1", "abc", "ABC", "a1", "0", "12", "123", "1.0.0", "2026-01-31", "#000000"),
    *("a-b", "a.b", "A.B", "/a", "d6"),
)
_ALL_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def generate_examples(schema: Any) -> list[Any]:
    """Return valid values: the schema's valid examples, else a generated one; empty if none was found.

    Raises:
        Invalid: it is not a schema.
    """
    compiled = compile_schema(schema)
    examples: Any = cast("Mapping[str, Any]", schema).get("examples") if isinstance(schema, Mapping) else None
    valid = (
        [example for example in cast("list[Any]", examples) if compiled.is_valid(example)]
        if isinstance(examples, list)
        else []
    )
    if valid:
        return valid
    generated = _ExampleGenerator(cast("object", schema)).value(schema, 0)
    return [generated] if compiled.is_valid(generated) else []


class _ExampleGenerator:
    def __init__(self, root: object) -> None:
        self._root: Mapping[str, Any] = cast("dict[str, Any]", root) if isinstance(root, dict) else {}

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return {} if schema is True else None
        fields = self._merge_schema(cast("Mapping[str, Any]", schema), depth)
        for keyword in ("const", "default"):
            if keyword in fields:
                return fields[keyword]
        for list_keyword in ("examples", "enum"):
            if isinstance(fields.get(list_keyword), list) and fields[list_keyword]:
                return fields[list_keyword][0]
        for union_keyword in ("oneOf", "anyOf"):
            if isinstance(fields.get(union_keyword), list):
                return self._first_fitting(fields, union_keyword, depth)
        return self._generate(fields, depth)

    def _merge_schema(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Merge the schema with its `$ref` and its `allOf` parts."""
        fields = dict(schema)
        parts: list[Any] = []
        reference = fields.pop("$ref", None)
        if isinstance(reference, str):
            parts.append(self._resolve_reference(reference))
        all_of = fields.pop("allOf", None)
        parts += cast("list[Any]", all_of) if isinstance(all_of, list) else []
        for part in parts:
            if not isinstance(part, Mapping) or depth > _MAX_DEPTH:
                continue
            merged = self._merge_schema(cast("Mapping[str, Any]", part), depth + 1)
            properties = {**merged.get("properties", {}), **fields.get("properties", {})}
            required = [*merged.get("required", []), *fields.get("required", [])]
            fields = {**merged, **fields}
            fields |= {"properties": properties} if properties else {}
            fields |= {"required": required} if required else {}
        return fields

    def _resolve_reference(self, reference: str) -> Any:
        target: Any = self._root
        if not reference.startswith("#"):
            return {}
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            target = cast("Mapping[str, Any]", target).get(key) if isinstance(target, Mapping) else None
        return cast("object", target)

    def _first_fitting(self, fields: dict[str, Any], union_keyword: str, depth: int) -> Any:
        rest = {name: value for name, value in fields.items() if name != union_keyword}
        candidates = [self.value({"allOf": [rest, part]}, depth + 1) for part in fields[union_keyword]]
        return next((value for value in candidates if self._fits(fields, value)), candidates[0] if candidates else None)

    def _fits(self, fields: dict[str, Any], value: Any) -> bool:
        definitions = {name: self._root[name] for name in ("$defs", "definitions") if name in self._root}
        try:
            return compile_schema({**definitions, **fields}).is_valid(value)
        except Invalid:
            return False

    def _generate(self, fields: dict[str, Any], depth: int) -> Any:
        types = fields.get("type")
        type_name = next(iter(cast("list[Any]", types)), None) if isinstance(types, list) else types
        if type_name not in _ALL_TYPES:
            type_name = "object" if "properties" in fields or "required" in fields else "string"
        match type_name:
            case "object":
                return self._generate_object(fields, depth)
            case "array":
                item = fields.get("items", True)
                return [self.value(item, depth + 1) for _ in range(int(fields.get("minItems", 0)))]
            case "string":
                return self._generate_text(fields)
            case "integer" | "number":
                return _generate_number(fields, whole=type_name == "integer")
            case "boolean":
                return False
            case _:
                return None

    def _generate_object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = fields.get("properties", {})
        generated = {name: self.value(properties.get(name, {}), depth + 1) for name in fields.get("required", [])}
        for name in properties:
            if len(generated) >= int(fields.get("minProperties", 0)):
                break
            generated.setdefault(name, self.value(properties[name], depth + 1))
        return generated

    def _generate_text(self, fields: dict[str, Any]) -> str:
        if fields.get("format") in _FORMAT_EXAMPLES:
            return _FORMAT_EXAMPLES[fields["format"]]
        min_length = int(fields.get("minLength", 0))
        if "pattern" in fields:
            candidates = [*_PATTERN_GUESSES, *(guess * max(min_length, 1) for guess in ("a", "A", "1"))]
            return next((guess for guess in candidates if self._fits(fields, guess)), "")
        return "a" * max(min_length, min(1, int(fields.get("maxLength", 1))))


def _generate_number(fields: dict[str, Any], *, whole: bool) -> float | int:
    """Return the allowed number nearest to zero."""
    step: float = fields.get("multipleOf", 1 if whole else 0)
    low, high = fields.get("minimum", -math.inf), fields.get("maximum", math.inf)
    if "exclusiveMinimum" in fields:
        low = max(low, fields["exclusiveMinimum"] + (step or 1e-3))
    if "exclusiveMaximum" in fields:
        high = min(high, fields["exclusiveMaximum"] - (step or 1e-3))
    number = min(max(0, low), high)
    if step:
        number = math.ceil(number / step) * step
        number = number if number <= high else math.floor(high / step) * step
    return int(number) if whole else number

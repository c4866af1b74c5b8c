"""Checks whether a new version's schemas keep the promise of its version number.

A caller of the old version must be able to go on: its input must still be accepted, and the output must still contain
what it relied on. A difference that cannot be judged from the schemas counts as breaking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, cast

from msgspec import Struct

from paddock.core.schema.compile import check_schema, join_path
from paddock.core.schema.traversal import ReferenceResolver
from paddock.core.semver import Version

MAX_DEPTH = 64
MAX_PAIRS = 2000  # of references that are compared; all pairs of two hostile schemas would be too many


class CompatibilityLevel(StrEnum):
    """How much a difference matters to callers: the smallest version step that may contain it."""

    NONE = "patch"
    ADDITIVE = "minor"
    BREAKING = "major"


class SchemaDifference(Struct, frozen=True):
    """One difference between two versions' schemas."""

    path: str
    change: CompatibilityLevel
    message: str


SchemaPath = tuple[str | int, ...]


def compare_input(old: Any, new: Any, path: SchemaPath = ("input",)) -> list[SchemaDifference]:
    """Return the differences of an input schema: breaking where formerly valid input is refused."""
    return _compare(old, new, path, widening_breaks=False)


def compare_output(old: Any, new: Any, path: SchemaPath = ("output",)) -> list[SchemaDifference]:
    """Return the differences of an output schema: breaking where promised output may be missing."""
    return _compare(old, new, path, widening_breaks=True)


def _compare(old: Any, new: Any, path: SchemaPath, *, widening_breaks: bool) -> list[SchemaDifference]:
    """Return all differences. Invalid schemas are not compared: their meaning cannot be judged."""
    for which, schema in (("old", old), ("new", new)):
        if schema is not None and check_schema(schema):
            if old == new:
                return []
            message = f"the {which} schema is not sound, so the change cannot be judged and counts as breaking"
            return [SchemaDifference(join_path(path), CompatibilityLevel.BREAKING, message)]
    return list(_SchemaComparison(old, new, widening_breaks=widening_breaks).compare(old, new, path))


def version_step(old: Version, new: Version) -> CompatibilityLevel:
    """Return what the version numbers declare. Below 1.0.0 a minor step may break, as semver allows."""
    if new.major != old.major:
        return CompatibilityLevel.BREAKING
    if new.minor != old.minor:
        return CompatibilityLevel.BREAKING if new.major == 0 else CompatibilityLevel.ADDITIVE
    return CompatibilityLevel.NONE


_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# Adding one of these accepts less, removing it accepts more, changing it does both.
_NARROWING = ("pattern", "format", "multipleOf", "uniqueItems", "propertyNames", "contains", "dependentRequired")
_UNCOMPARED_KEYWORDS = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "prefixItems", "patternProperties"),
    *("dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems", "additionalItems"),
)


class _SchemaComparison:
    """Compares two whole schemas, for input or for output."""

    def __init__(self, old: Any, new: Any, *, widening_breaks: bool) -> None:
        self._old = old
        self._new = new
        # One per side: each indexes its schema once, however many references there are.
        self._resolver_of_old = ReferenceResolver()
        self._resolver_of_new = ReferenceResolver()
        self._widening_breaks = widening_breaks
        self._followed: set[tuple[str, str] | tuple[int, int]] = set()

    def compare(self, old: Any, new: Any, path: SchemaPath) -> Iterator[SchemaDifference]:
        """Yield every difference between two subschemas."""
        references = _text(_as_object(old).get("$ref")), _text(_as_object(new).get("$ref"))
        if not any(references) and old == new and not _has_references(old):
            return
        if len(path) > MAX_DEPTH:
            message = "lies too deep to be judged and counts as breaking"
            yield self._difference(path, message, narrowed=True, widened=True)
            return
        if any(references):
            # Two bare references mean the same wherever they meet. Otherwise only the same two positions do: a
            # reference may meet a different inline schema each time.
            bare = all(references) and len(_as_object(old)) == len(_as_object(new)) == 1
            pair = references if bare else (id(old), id(new))
            if pair in self._followed:
                return
            self._followed.add(pair)
            if len(self._followed) > MAX_PAIRS:
                message = "refers to more than can be compared and counts as breaking"
                yield self._difference(path, message, narrowed=True, widened=True)
                return
            old = _resolve_reference(self._resolver_of_old, self._old, old)
            new = _resolve_reference(self._resolver_of_new, self._new, new)
        before, after = _as_object(old), _as_object(new)
        yield from self._types(before, after, path)
        yield from self._values(before, after, path)
        yield from self._bounds(before, after, path)
        yield from self._required(before, after, path)
        yield from self._properties(before, after, path)
        yield from self._inner(before, after, path)

    def _difference(self, path: SchemaPath, message: str, *, narrowed: bool, widened: bool) -> SchemaDifference:
        breaking = widened if self._widening_breaks else narrowed
        return SchemaDifference(
            join_path(path), CompatibilityLevel.BREAKING if breaking else CompatibilityLevel.ADDITIVE, message
        )

    def _types(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: SchemaPath
    ) -> Iterator[SchemaDifference]:
        old, new = _schema_types(before), _schema_types(after)
        if old == new:
            return
        yield self._difference(
            path,
            f"the type changed from {_value_text(before.get('type'))} to {_value_text(after.get('type'))}",
            narrowed=new is not None and (old is None or not old <= new),
            widened=old is not None and (new is None or not new <= old),
        )

    def _values(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: SchemaPath
    ) -> Iterator[SchemaDifference]:
        old, new = _allowed_values(before), _allowed_values(after)
        if old == new:
            return
        removed = new is not None and (old is None or bool(old - new))
        added = old is not None and (new is None or bool(new - old))
        listed = sorted((old or set()) ^ (new or set())) if old is not None and new is not None else []
        examples = f": {', '.join(listed[:5])}" if listed else ""
        if removed:
            yield self._difference(path, f"fewer values are allowed{examples}", narrowed=True, widened=False)
        if added:
            yield self._difference(path, f"more values are allowed{examples}", narrowed=False, widened=True)

    def _bounds(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: SchemaPath
    ) -> Iterator[SchemaDifference]:
        for key in (*_LOWER_BOUNDS, *_UPPER_BOUNDS):
            old, new = _number(before.get(key)), _number(after.get(key))
            if old == new:
                continue
            narrowed = new is not None and (old is None or (new > old if key in _LOWER_BOUNDS else new < old))
            message = f"{key} changed from {_value_text(old)} to {_value_text(new)}"
            yield self._difference(path, message, narrowed=narrowed, widened=not narrowed)
        for key in _NARROWING:
            if before.get(key) != after.get(key):
                narrowed, widened = bool(after.get(key)), bool(before.get(key))
                yield self._difference(path, f"the {key} changed", narrowed=narrowed, widened=widened)
        for key in _UNCOMPARED_KEYWORDS:
            if before.get(key) != after.get(key):
                message = f"{key} changed, which cannot be judged and counts as breaking"
                yield self._difference(path, message, narrowed=True, widened=True)

    def _required(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: SchemaPath
    ) -> Iterator[SchemaDifference]:
        old, new = _names(before, "required"), _names(after, "required")
        for name in sorted(new - old):
            message = "is always there now" if self._widening_breaks else "is required now and was not before"
            yield self._difference((*path, name), message, narrowed=True, widened=False)
        for name in sorted(old - new):
            message = "was always there and is optional now" if self._widening_breaks else "is no longer required"
            yield self._difference((*path, name), message, narrowed=False, widened=True)

    def _properties(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: SchemaPath
    ) -> Iterator[SchemaDifference]:
        old, new = _as_object(before.get("properties")), _as_object(after.get("properties"))
        closed = after.get("additionalProperties") is False
        for name in old:
            property_path = (*path, name)
            if name in new:
                yield from self.compare(old[name], new[name], property_path)
            elif self._widening_breaks or closed:
                message = "is gone" if self._widening_breaks else "is no longer accepted"
                yield self._difference(property_path, message, narrowed=True, widened=True)
            else:
                yield self._difference(property_path, "is no longer described", narrowed=False, widened=False)
        for name in new:
            if name not in old:
                yield self._difference((*path, name), "is new", narrowed=False, widened=False)

    def _inner(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: SchemaPath
    ) -> Iterator[SchemaDifference]:
        """Compare list items, and the additional properties of objects."""
        if "items" in before or "items" in after:
            yield from self.compare(before.get("items", True), after.get("items", True), (*path, "items"))
        old, new = before.get("additionalProperties", True), after.get("additionalProperties", True)
        if old is not False and new is not False:
            yield from self.compare(old, new, (*path, "additionalProperties"))
        elif old != new and self._widening_breaks:
            yield self._difference(path, "other fields may come with it", narrowed=False, widened=False)
        elif old != new:
            message = "other fields are no longer accepted" if new is False else "other fields are accepted now"
            yield self._difference(path, message, narrowed=new is False, widened=old is False)


def _resolve_reference(resolver: ReferenceResolver, root: Any, schema: Any) -> Any:
    """Return the target of a reference, merged with the keywords beside the reference."""
    seen: set[str] = set()
    current = _as_object(schema)
    while (target := _text(current.get("$ref"))) and target not in seen and target.startswith("#"):
        seen.add(target)
        siblings = {key: value for key, value in current.items() if key != "$ref"}
        try:
            current = {**_as_object(resolver.resolve(root, target)), **siblings}
        except LookupError:
            return siblings
    return current


def _has_references(schema: Any) -> bool:
    """Whether the schema contains references, so that equal texts may mean different things."""
    pending = [schema]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            if "$ref" in current:
                return True
            pending.extend(cast("dict[str, Any]", current).values())
        elif isinstance(current, list):
            pending.extend(cast("list[Any]", current))
    return False


def _as_object(schema: Any) -> Mapping[str, Any]:
    if isinstance(schema, dict):
        return cast("dict[str, Any]", schema)
    return {"not": {}} if schema is False else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _schema_types(schema: Mapping[str, Any]) -> set[str] | None:
    declared = schema.get("type")
    if declared is None:
        return None
    listed = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    kinds = {kind for kind in listed if isinstance(kind, str)}
    return kinds | {"integer"} if "number" in kinds else kinds


def _allowed_values(schema: Mapping[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {repr(schema["const"])}
    values = schema.get("enum")
    return {repr(value) for value in cast("list[Any]", values)} if isinstance(values, list) else None


def _names(schema: Mapping[str, Any], key: str) -> set[str]:
    value = schema.get(key)
    return {name for name in cast("list[Any]", value) if isinstance(name, str)} if isinstance(value, list) else set()


def _value_text(value: Any) -> str:
    return "anything" if value is None else str(value)

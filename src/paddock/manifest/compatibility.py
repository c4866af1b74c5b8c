"""Whether a new version's schemas keep the promise its version number makes.

A caller of the old version must be able to go on: what it sends must still be accepted (input), and what it gets back
must still have what it relied on (output). Only what can be decided from the schemas is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from paddock.core.schema import join_path
from paddock.core.semver import Version

MAX_DEPTH = 16

Path = tuple[str | int, ...]


class Change(StrEnum):
    """How much a difference matters to callers; the least version step that may carry it."""

    NONE = "patch"
    ADDITIVE = "minor"
    BREAKING = "major"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two versions' schemas."""

    path: str
    change: Change
    message: str


def compare_input(old: Any, new: Any, path: Path = ("input",)) -> list[Difference]:
    """Differences in what a callable accepts: breaking where something accepted before is refused now."""
    return list(_compare(old, new, path, widening_breaks=False, depth=0))


def compare_output(old: Any, new: Any, path: Path = ("output",)) -> list[Difference]:
    """Differences in what a callable answers: breaking where something promised before may be missing now."""
    return list(_compare(old, new, path, widening_breaks=True, depth=0))


def step_between(old: Version, new: Version) -> Change:
    """What the version numbers say about the change. Below 1.0.0 a minor step may break, as semver allows."""
    if new.major != old.major:
        return Change.BREAKING
    if new.minor != old.minor:
        return Change.BREAKING if new.major == 0 else Change.ADDITIVE
    return Change.NONE


def _compare(old: Any, new: Any, path: Path, *, widening_breaks: bool, depth: int) -> Iterator[Difference]:
    if old == new or depth > MAX_DEPTH:
        return
    before = _as_object(old)
    after = _as_object(new)
    yield from _types(before, after, path, widening_breaks)
    yield from _enums(before, after, path, widening_breaks)
    yield from _bounds(before, after, path, widening_breaks)
    yield from _required(before, after, path, widening_breaks)
    yield from _properties(before, after, path, widening_breaks, depth)
    if isinstance(before.get("items"), dict) or isinstance(after.get("items"), dict):
        yield from _compare(
            before.get("items", {}),
            after.get("items", {}),
            (*path, "items"),
            widening_breaks=widening_breaks,
            depth=depth + 1,
        )


def _as_object(schema: Any) -> Mapping[str, Any]:
    if isinstance(schema, dict):
        return cast("dict[str, Any]", schema)
    return {"not": {}} if schema is False else {}


def _difference(path: Path, breaking: bool, message: str) -> Difference:
    return Difference(join_path(path), Change.BREAKING if breaking else Change.ADDITIVE, message)


def _kinds(schema: Mapping[str, Any]) -> set[str] | None:
    declared = schema.get("type")
    if declared is None:
        return None
    kinds = {declared} if isinstance(declared, str) else set(cast("list[str]", declared))
    return kinds | {"integer"} if "number" in kinds else kinds


def _types(
    before: Mapping[str, Any], after: Mapping[str, Any], path: Path, widening_breaks: bool
) -> Iterator[Difference]:
    old, new = _kinds(before), _kinds(after)
    if old == new:
        return
    narrowed = new is not None and (old is None or not old <= new)
    widened = old is not None and (new is None or not new <= old)
    shown = f"the type changed from {_shown(before.get('type'))} to {_shown(after.get('type'))}"
    if narrowed or widened:
        yield _difference(path, widened if widening_breaks else narrowed, shown)


def _enums(
    before: Mapping[str, Any], after: Mapping[str, Any], path: Path, widening_breaks: bool
) -> Iterator[Difference]:
    old, new = _allowed(before), _allowed(after)
    if old == new:
        return
    gone = old - new if old is not None and new is not None else (old is None and new is not None)
    added = new - old if old is not None and new is not None else (old is not None and new is None)
    if gone:
        yield _difference(path, not widening_breaks, f"fewer values are allowed{_those(gone)}")
    if added:
        yield _difference(path, widening_breaks, f"more values are allowed{_those(added)}")


def _allowed(schema: Mapping[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {repr(schema["const"])}
    values = schema.get("enum")
    return {repr(value) for value in cast("list[Any]", values)} if isinstance(values, list) else None


def _those(values: set[str] | bool) -> str:
    return f": {', '.join(sorted(values)[:5])}" if isinstance(values, set) else ""


_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def _bounds(
    before: Mapping[str, Any], after: Mapping[str, Any], path: Path, widening_breaks: bool
) -> Iterator[Difference]:
    for key in (*_LOWER, *_UPPER):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        narrowed = new is not None and (old is None or (new > old if key in _LOWER else new < old))
        yield _difference(
            path, (not narrowed) if widening_breaks else narrowed, f"{key} changed from {_shown(old)} to {_shown(new)}"
        )
    if before.get("pattern") != after.get("pattern"):
        narrowed = after.get("pattern") is not None
        yield _difference(path, (not narrowed) if widening_breaks else narrowed, "the pattern changed")


def _names(schema: Mapping[str, Any], key: str) -> list[str]:
    value = schema.get(key)
    return list(cast("list[str]", value)) if isinstance(value, list | dict) else []


def _required(
    before: Mapping[str, Any], after: Mapping[str, Any], path: Path, widening_breaks: bool
) -> Iterator[Difference]:
    old, new = set(_names(before, "required")), set(_names(after, "required"))
    for name in sorted(new - old):
        yield _difference((*path, name), not widening_breaks, "is required now and was not before")
    for name in sorted(old - new):
        yield _difference(
            (*path, name),
            widening_breaks,
            "was always there and is optional now" if widening_breaks else "is no longer required",
        )


def _properties(
    before: Mapping[str, Any], after: Mapping[str, Any], path: Path, widening_breaks: bool, depth: int
) -> Iterator[Difference]:
    old = cast("dict[str, Any]", before.get("properties") or {})
    new = cast("dict[str, Any]", after.get("properties") or {})
    closed = after.get("additionalProperties") is False
    for name in old:
        here = (*path, name)
        if name in new:
            yield from _compare(old[name], new[name], here, widening_breaks=widening_breaks, depth=depth + 1)
        elif widening_breaks or closed:
            yield _difference(here, True, "is gone" if widening_breaks else "is no longer accepted")
        else:
            yield _difference(here, False, "is no longer described")
    for name in new:
        if name not in old:
            yield _difference((*path, name), False, "is new")
    if closed and before.get("additionalProperties") is not False and not widening_breaks:
        yield _difference(path, True, "other fields are no longer accepted")


def _shown(value: Any) -> str:
    return "anything" if value is None else str(value)

"""Python's types as JSON Schemas, and values read and written by them.

`shape_of(hint)` gives a Shape for str, int, float, bool, None, Any, list, tuple, set, dict, Optional, Union, Literal,
enums, TypedDicts, dataclasses and Annotated. The extras of Annotated are a description, or a dict of schema keywords:

    name: Annotated[str, "Whom to greet", {"minLength": 1}]

Keywords that values are also checked against here are those of `limits.py`; all others are only told.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.jsonable import fields_of
from paddock_sdk.schema import (
    Problems,
    TypeSchema,
    list_schema,
    mapping_schema,
    object_schema,
    problem_at,
    scalar_schema,
    union_schema,
)


def limit_violations(value: Any, limits: JsonObject) -> Iterator[str]:
    """What a value breaks, in words. Keywords that are not known here are the host's to check."""
    for name, bound in limits.items():
        known = _CHECKS.get(name)
        if known is not None:
            kinds, broken, words = known
            if isinstance(value, kinds) and not isinstance(value, bool) and broken(value, bound):
                yield words.format(bound)


def _does_not_match(value: str, pattern: str) -> bool:
    import re

    return re.search(pattern, value) is None


_Check = tuple[tuple[type, ...], Callable[[Any, Any], bool], str]
_NUMBERS = (int, float)

_CHECKS: dict[str, _Check] = {
    "minimum": (_NUMBERS, lambda value, bound: value < bound, "must be at least {}"),
    "maximum": (_NUMBERS, lambda value, bound: value > bound, "must be at most {}"),
    "exclusiveMinimum": (_NUMBERS, lambda value, bound: value <= bound, "must be more than {}"),
    "exclusiveMaximum": (_NUMBERS, lambda value, bound: value >= bound, "must be less than {}"),
    "minLength": ((str,), lambda value, bound: len(value) < bound, "must have at least {} characters"),
    "maxLength": ((str,), lambda value, bound: len(value) > bound, "must have at most {} characters"),
    "pattern": ((str,), _does_not_match, "must match {}"),
    "minItems": ((list,), lambda value, bound: len(value) < bound, "must have at least {} items"),
    "maxItems": ((list,), lambda value, bound: len(value) > bound, "must have at most {} items"),
}


_LISTS: dict[Any, Any] = {
    list: list, set: set, frozenset: frozenset, tuple: tuple,
    collections.abc.Sequence: list, collections.abc.Iterable: list, collections.abc.Set: set,
}  # fmt: skip
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def build_schema(hint: Any, within: tuple[Any, ...] = ()) -> TypeSchema:
    """The shape of a type.

    Args:
        hint: The type, resolved.
        within: The types around it.

    Raises:
        TypeError: JSON cannot tell it.
    """
    origin: Any = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated_schema(build_schema(inner[0], within), inner[1:])
    if hint in (Any, object):
        return TypeSchema({}, _read_any)
    if hint is None or hint in _SCALARS:
        kind = type(None) if hint is None else hint
        return scalar_schema(kind, _SCALARS[kind])
    if hint in within:
        raise TypeError(f"{_type_name(hint)} holds itself, which a schema from types cannot say")
    inside = (*within, hint)
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return build_schema(inner[0], within)
    if origin in (typing.Union, types.UnionType):
        return union_schema([build_schema(one, inside) for one in inner])
    if origin is typing.Literal:
        return _enum_schema({value: value for value in inner}, _type_name(hint))
    kind = origin or hint
    if kind in _LISTS:
        if kind is tuple and (len(inner) != 2 or inner[1] is not Ellipsis):
            raise TypeError(f"{_type_name(hint)}: write tuple[T, ...] or list[T]")
        return list_schema(build_schema(inner[0] if inner else Any, inside), _LISTS[kind])
    if kind in _MAPPINGS:
        if inner and inner[0] is not str:
            raise TypeError(f"{_type_name(hint)}: the keys of a JSON object are text")
        return mapping_schema(build_schema(inner[1] if inner else Any, inside))
    if isinstance(hint, type):
        return _class_schema(typing.cast("type[Any]", hint), inside)
    raise TypeError(f"{_type_name(hint)} cannot be told in JSON")


def resolve_hints(thing: Any) -> dict[str, Any]:
    """The types that a function or class names, resolved.

    Raises:
        TypeError: one is not known where it is defined.
    """
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as error:
        raise TypeError(f"{_type_name(thing)}: {error}; its types must be known where it is defined") from None


def _read_any(value: Any, _path: str, _mistakes: Problems) -> Any:
    return value


def _class_schema(hint: type[Any], inside: tuple[Any, ...]) -> TypeSchema:
    if issubclass(hint, enum.Enum):
        return _enum_schema({member.value: member for member in hint}, hint.__name__)
    if typing.is_typeddict(hint):
        hints = resolve_hints(hint)
        required = _required_keys(hint, hints)
        shapes = {name: build_schema(one, inside) for name, one in hints.items()}
        return object_schema(hint.__name__, shapes, required, {}, dict)
    if dataclasses.is_dataclass(hint):
        hints = resolve_hints(hint)
        fields = [field for field in dataclasses.fields(hint) if field.init]
        shapes = {field.name: build_schema(hints[field.name], inside) for field in fields}
        missing = dataclasses.MISSING
        needed = {one.name for one in fields if one.default is missing and one.default_factory is missing}
        defaults = {one.name: one.default for one in fields if one.default is not missing}
        return object_schema(hint.__name__, shapes, needed, defaults, hint)
    raise TypeError(f"{_type_name(hint)} cannot be told in JSON; use a dataclass, a TypedDict or plain types")


def _required_keys(hint: type[Any], hints: dict[str, Any]) -> set[str]:
    """Python itself overlooks NotRequired where annotations are kept as text, so the resolved types decide."""
    keys: set[str] = set(getattr(hint, "__required_keys__", ()))
    for name, one in hints.items():
        origin = typing.get_origin(one)
        if origin is typing.NotRequired:
            keys.discard(name)
        elif origin is typing.Required:
            keys.add(name)
    return keys


def _enum_schema(values: dict[Any, Any], name: str) -> TypeSchema:
    if not all(type(value) in (str, int, bool, float, type(None)) for value in values):
        raise TypeError(f"{name}: only text, numbers, true, false and null can be choices")
    words = ", ".join(str(value) for value in values)

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        # True == 1: a choice counts only with its own type.
        chosen = [found for known, found in values.items() if known == value and type(known) is type(value)]
        if not chosen:
            mistakes.append(problem_at(path, f"must be one of {words}"))
            return None
        return chosen[0]

    return TypeSchema({"enum": list(values)}, read)


def _annotated_schema(shape: TypeSchema, extras: tuple[Any, ...]) -> TypeSchema:
    told: JsonObject = {}
    for extra in extras:
        if isinstance(extra, str):
            told["description"] = extra
        elif isinstance(extra, dict):
            told.update(typing.cast("JsonObject", extra))
    limits = {name: value for name, value in told.items() if name != "description"}

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        before = len(mistakes)
        result = shape.read(value, path, mistakes)
        if len(mistakes) == before:
            mistakes += [problem_at(path, words) for words in limit_violations(value, limits)]
        return result

    return TypeSchema({**shape.schema, **told}, read if limits else shape.read)


def to_json(value: Any) -> Any:
    """A value of such types as JSON can hold it, all the way down; what is none of them is left as it is."""
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, str | int | float | None):
        return value
    fields = fields_of(value)
    if fields is not None:
        return {key: to_json(one) for key, one in fields.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in typing.cast("list[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted((to_json(one) for one in typing.cast("set[Any]", value)), key=repr)
    return value


def _type_name(hint: Any) -> str:
    return getattr(hint, "__qualname__", None) or str(hint)

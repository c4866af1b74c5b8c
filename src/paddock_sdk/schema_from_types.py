"""Builds JSON Schemas from Python types, and reads and writes values by them.

`build_schema(hint)` returns a TypeSchema for str, int, float, bool, None, Any, list, tuple, set, dict, Optional, Union,
Literal, enums, TypedDicts, dataclasses and Annotated. The extras of Annotated are a description, or a dict of schema
keywords:

    name: Annotated[str, "Whom to greet", {"minLength": 1}]

The keywords in `_CHECKS` are also checked here; all others only appear in the schema.
"""

from __future__ import annotations

import collections.abc
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
    """Yield a message for each keyword that a value violates. Unknown keywords are checked by the host."""
    for name, bound in limits.items():
        check = _CHECKS.get(name)
        if check is not None:
            kinds, violates, message = check
            if isinstance(value, kinds) and not isinstance(value, bool) and violates(value, bound):
                yield message.format(bound)


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
    """Return the schema of a type.

    Args:
        hint: The type, resolved.
        within: The types that contain it.

    Raises:
        TypeError: it has no JSON Schema.
    """
    origin: Any = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated_schema(build_schema(arguments[0], within), arguments[1:])
    if hint in (Any, object):
        return TypeSchema({}, _read_any)
    if hint is None or (isinstance(hint, type) and hint in _SCALARS):  # a generic alias may not be hashable
        kind = type(None) if hint is None else hint
        return scalar_schema(kind, _SCALARS[kind])
    if hint in within:
        raise TypeError(f"{_type_name(hint)} holds itself, which a schema from types cannot say")
    nesting = (*within, hint)
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return build_schema(arguments[0], within)
    if origin in (typing.Union, types.UnionType):
        return union_schema([build_schema(one, nesting) for one in arguments])
    if origin is typing.Literal:
        return _enum_schema({value: value for value in arguments}, _type_name(hint))
    kind = origin or hint
    if kind in _LISTS:
        if kind is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
            raise TypeError(f"{_type_name(hint)}: write tuple[T, ...] or list[T]")
        return list_schema(build_schema(arguments[0] if arguments else Any, nesting), _LISTS[kind])
    if kind in _MAPPINGS:
        if arguments and arguments[0] is not str:
            raise TypeError(f"{_type_name(hint)}: the keys of a JSON object are text")
        return mapping_schema(build_schema(arguments[1] if arguments else Any, nesting))
    if isinstance(hint, type):
        return _class_schema(typing.cast("type[Any]", hint), nesting)
    raise TypeError(f"{_type_name(hint)} has no JSON form")


def resolve_hints(target: Any) -> dict[str, Any]:
    """Return the resolved type hints of a function or class.

    Raises:
        TypeError: a type is not known where it is defined.
    """
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(f"{_type_name(target)}: {error}; its types must be known where it is defined") from None


def _read_any(value: Any, _path: str, _mistakes: Problems) -> Any:
    return value


def _class_schema(hint: type[Any], nesting: tuple[Any, ...]) -> TypeSchema:
    if issubclass(hint, enum.Enum):
        return _enum_schema({member.value: member for member in hint}, hint.__name__)
    if typing.is_typeddict(hint):
        hints = resolve_hints(hint)
        required = _required_keys(hint, hints)
        schemas = {name: build_schema(one, nesting) for name, one in hints.items()}
        return object_schema(schemas, required, {}, dict)
    if hasattr(hint, "__dataclass_fields__"):
        import dataclasses  # late: its import takes longer than all others of a small plugin

        hints = resolve_hints(hint)
        fields = [field for field in dataclasses.fields(hint) if field.init]
        schemas = {field.name: build_schema(hints[field.name], nesting) for field in fields}
        missing = dataclasses.MISSING
        required_names = {one.name for one in fields if one.default is missing and one.default_factory is missing}
        defaults = {one.name: one.default for one in fields if one.default is not missing}
        return object_schema(schemas, required_names, defaults, hint)
    raise TypeError(f"{_type_name(hint)} has no JSON form; use a dataclass, a TypedDict or plain types")


def _required_keys(hint: type[Any], hints: dict[str, Any]) -> set[str]:
    """Return the required keys of a TypedDict, by its resolved types.

    Python itself overlooks NotRequired where annotations are stored as text.
    """
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
    choices = ", ".join(str(value) for value in values)

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        # True == 1, so the types are compared too.
        chosen = [
            python_value for choice, python_value in values.items() if choice == value and type(choice) is type(value)
        ]
        if not chosen:
            mistakes.append(problem_at(path, f"must be one of {choices}"))
            return None
        return chosen[0]

    return TypeSchema({"enum": list(values)}, read)


def _annotated_schema(base: TypeSchema, extras: tuple[Any, ...]) -> TypeSchema:
    keywords: JsonObject = {}
    for extra in extras:
        if isinstance(extra, str):
            keywords["description"] = extra
        elif isinstance(extra, dict):
            keywords.update(typing.cast("JsonObject", extra))
    limits = {name: value for name, value in keywords.items() if name != "description"}

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        before = len(mistakes)
        result = base.read(value, path, mistakes)
        if len(mistakes) == before:
            mistakes += [problem_at(path, message) for message in limit_violations(value, limits)]
        return result

    return TypeSchema({**base.schema, **keywords}, read if limits else base.read)


def to_json(value: Any) -> Any:
    """Convert a value to JSON recursively; unknown objects are left as they are."""
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

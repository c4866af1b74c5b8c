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
from typing import Any

from paddock_sdk.call import JsonObject
from paddock_sdk.limits import broken_limits
from paddock_sdk.plain import fields_of
from paddock_sdk.shape import Mistakes, Shape, at, of_fields, of_list, of_mapping, of_plain, of_union

_LISTS: dict[Any, Any] = {
    list: list, set: set, frozenset: frozenset, tuple: tuple,
    collections.abc.Sequence: list, collections.abc.Iterable: list, collections.abc.Set: set,
}  # fmt: skip
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def shape_of(hint: Any, within: tuple[Any, ...] = ()) -> Shape:
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
        return _annotated(shape_of(inner[0], within), inner[1:])
    if hint in (Any, object):
        return Shape({}, _anything)
    if hint is None or hint in _PLAIN:
        kind = type(None) if hint is None else hint
        return of_plain(kind, _PLAIN[kind])
    if hint in within:
        raise TypeError(f"{_name(hint)} holds itself, which a schema from types cannot say")
    inside = (*within, hint)
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return shape_of(inner[0], within)
    if origin in (typing.Union, types.UnionType):
        return of_union([shape_of(one, inside) for one in inner])
    if origin is typing.Literal:
        return _one_of({value: value for value in inner}, _name(hint))
    kind = origin or hint
    if kind in _LISTS:
        if kind is tuple and (len(inner) != 2 or inner[1] is not Ellipsis):
            raise TypeError(f"{_name(hint)}: write tuple[T, ...] or list[T]")
        return of_list(shape_of(inner[0] if inner else Any, inside), _LISTS[kind])
    if kind in _MAPPINGS:
        if inner and inner[0] is not str:
            raise TypeError(f"{_name(hint)}: the keys of a JSON object are text")
        return of_mapping(shape_of(inner[1] if inner else Any, inside))
    if isinstance(hint, type):
        return _class_shape(typing.cast("type[Any]", hint), inside)
    raise TypeError(f"{_name(hint)} cannot be told in JSON")


def hints_of(thing: Any) -> dict[str, Any]:
    """The types that a function or class names, resolved.

    Raises:
        TypeError: one is not known where it is defined.
    """
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as error:
        raise TypeError(f"{_name(thing)}: {error}; its types must be known where it is defined") from None


def _anything(value: Any, _path: str, _mistakes: Mistakes) -> Any:
    return value


def _class_shape(hint: type[Any], inside: tuple[Any, ...]) -> Shape:
    if issubclass(hint, enum.Enum):
        return _one_of({member.value: member for member in hint}, hint.__name__)
    if typing.is_typeddict(hint):
        hints = hints_of(hint)
        required = _required_keys(hint, hints)
        shapes = {name: shape_of(one, inside) for name, one in hints.items()}
        return of_fields(hint.__name__, shapes, required, {}, dict)
    if dataclasses.is_dataclass(hint):
        hints = hints_of(hint)
        fields = [field for field in dataclasses.fields(hint) if field.init]
        shapes = {field.name: shape_of(hints[field.name], inside) for field in fields}
        missing = dataclasses.MISSING
        needed = {one.name for one in fields if one.default is missing and one.default_factory is missing}
        defaults = {one.name: one.default for one in fields if one.default is not missing}
        return of_fields(hint.__name__, shapes, needed, defaults, hint)
    raise TypeError(f"{_name(hint)} cannot be told in JSON; use a dataclass, a TypedDict or plain types")


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


def _one_of(values: dict[Any, Any], name: str) -> Shape:
    if not all(type(value) in (str, int, bool, float, type(None)) for value in values):
        raise TypeError(f"{name}: only text, numbers, true, false and null can be choices")
    words = ", ".join(str(value) for value in values)

    def read(value: Any, path: str, mistakes: Mistakes) -> Any:
        # True == 1: a choice counts only with its own type.
        chosen = [found for known, found in values.items() if known == value and type(known) is type(value)]
        if not chosen:
            mistakes.append(at(path, f"must be one of {words}"))
            return None
        return chosen[0]

    return Shape({"enum": list(values)}, read)


def _annotated(shape: Shape, extras: tuple[Any, ...]) -> Shape:
    told: JsonObject = {}
    for extra in extras:
        if isinstance(extra, str):
            told["description"] = extra
        elif isinstance(extra, dict):
            told.update(typing.cast("JsonObject", extra))
    limits = {name: value for name, value in told.items() if name != "description"}

    def read(value: Any, path: str, mistakes: Mistakes) -> Any:
        before = len(mistakes)
        result = shape.read(value, path, mistakes)
        if len(mistakes) == before:
            mistakes += [at(path, words) for words in broken_limits(value, limits)]
        return result

    return Shape({**shape.schema, **told}, read if limits else shape.read)


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


def _name(hint: Any) -> str:
    return getattr(hint, "__qualname__", None) or str(hint)

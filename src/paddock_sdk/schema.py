"""A type's JSON Schema, and how a JSON value is read by it. Every mistake is reported with its path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

from paddock_sdk.call import JsonObject

Problems: TypeAlias = list[dict[str, str]]
ReadValue: TypeAlias = Callable[[Any, str, Problems], Any]


class TypeSchema(NamedTuple):
    """The schema of a type, and its reader.

    Attributes:
        schema: The JSON Schema.
        read: Converts a JSON value to Python. Appends mistakes; after a mistake the returned value has no meaning.
    """

    schema: JsonObject
    read: ReadValue


def problem_at(path: str, message: str) -> dict[str, str]:
    return {"path": path, "message": message}


def scalar_schema(kind: type, name: str) -> TypeSchema:
    """A string, number, boolean or null."""
    type_text = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        if kind is int and type(value) is float and value.is_integer():
            return int(value)  # 1.0 is an integer in JSON
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            mistakes.append(problem_at(path, f"must be {type_text.get(name, name)}"))
        return value

    return TypeSchema({"type": name}, read)


def list_schema(item: TypeSchema, make: Callable[[list[Any]], Any]) -> TypeSchema:
    """A list, tuple or set of items of one type."""

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        if not isinstance(value, list):
            mistakes.append(problem_at(path, "must be a list"))
            return value
        before = len(mistakes)
        entries = cast("list[Any]", value)
        items = [item.read(one, f"{path}[{index}]", mistakes) for index, one in enumerate(entries)]
        return make(items) if len(mistakes) == before else None

    schema: JsonObject = {"type": "array"}
    if item.schema:
        schema["items"] = item.schema
    if make in (set, frozenset):
        schema["uniqueItems"] = True
    return TypeSchema(schema, read)


def mapping_schema(item: TypeSchema) -> TypeSchema:
    """An object with any keys and values of one type."""

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        if not isinstance(value, dict):
            mistakes.append(problem_at(path, "must be an object"))
            return value
        entries = cast("JsonObject", value)
        return {key: item.read(one, join_path(path, key), mistakes) for key, one in entries.items()}

    return TypeSchema({"type": "object"} | ({"additionalProperties": item.schema} if item.schema else {}), read)


def union_schema(options: list[TypeSchema]) -> TypeSchema:
    """One of several types."""

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        attempts: list[Problems] = []
        for option in options:
            problems: Problems = []
            result = option.read(value, path, problems)
            if not problems:
                return result
            attempts.append(problems)
        deeper = [problems for problems in attempts if any(one["path"] != path for one in problems)]
        if len(deeper) == 1:
            mistakes += deeper[0]  # most likely this one was meant
        else:
            expected = dict.fromkeys(
                one["message"].removeprefix("must be ") for problems in attempts for one in problems
            )
            mistakes.append(problem_at(path, f"must be {' or '.join(expected)}"))
        return None

    plain = [option.schema.get("type") for option in options]
    if all(list(option.schema) == ["type"] for option in options):
        return TypeSchema({"type": plain}, read)
    return TypeSchema({"anyOf": [option.schema for option in options]}, read)


def object_schema(
    shapes: Mapping[str, TypeSchema],
    required: Iterable[str],
    defaults: Mapping[str, Any],
    make: Callable[..., Any],
) -> TypeSchema:
    """An object with named fields and no others."""
    needed = [name for name in shapes if name in set(required)]

    def read(value: Any, path: str, mistakes: Problems) -> Any:
        if not isinstance(value, dict):
            mistakes.append(problem_at(path, "must be an object"))
            return None
        before = len(mistakes)
        fields = cast("JsonObject", value)
        mistakes += [problem_at(join_path(path, name), "is missing") for name in needed if name not in fields]
        mistakes += [problem_at(join_path(path, name), "is not known") for name in fields if name not in shapes]
        read = {
            name: shapes[name].read(one, join_path(path, name), mistakes)
            for name, one in fields.items()
            if name in shapes
        }
        return make(**read) if len(mistakes) == before else None

    properties = {
        name: shape.schema | ({"default": defaults[name]} if _is_json_default(defaults.get(name)) else {})
        for name, shape in shapes.items()
    }
    schema: JsonObject = {"type": "object"} | ({"required": needed} if needed else {})
    return TypeSchema(schema | {"additionalProperties": False, "properties": properties}, read)


def join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_json_default(default: Any) -> bool:
    return type(default) in (str, int, float, bool)

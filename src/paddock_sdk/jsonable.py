"""Converts results of plugins to JSON: enums, dataclasses, and objects that can list their fields."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, cast

from paddock_sdk.call import JsonObject


def to_jsonable(value: Any) -> Any:
    """Convert one object to a JSON value; nested objects are converted by further calls.

    Raises:
        TypeError: it has no JSON form.
    """
    if isinstance(value, enum.Enum):
        return value.value
    fields = fields_of(value)
    if fields is None:
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
    return fields


def fields_of(value: Any) -> JsonObject | None:
    """Return the fields of a mapping, dataclass, named tuple or model; None for any other object.

    Nothing is imported for this check: a plugin that returns a dataclass has loaded `dataclasses` already, and others
    need not pay for it.
    """
    if isinstance(value, dict):
        return cast("JsonObject", value)
    if isinstance(value, type):
        return None
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    names: Any = getattr(value, "__dataclass_fields__", None)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    for method in ("_asdict", "model_dump", "dict"):
        to_dict = getattr(value, method, None)
        if callable(to_dict):
            fields = to_dict()
            return cast("JsonObject", fields) if isinstance(fields, dict) else None
    return None

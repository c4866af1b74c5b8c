"""Objects that plugins answer with, as JSON has them: enums, dataclasses, and objects that can give their fields."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, cast

from paddock_sdk.call import JsonObject


def to_jsonable(value: Any) -> Any:
    """One object as a value that JSON can hold; what is inside of it is the next question.

    Raises:
        TypeError: there is no such value.
    """
    if isinstance(value, enum.Enum):
        return value.value
    found = fields_of(value)
    if found is None:
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
    return found


def fields_of(value: Any) -> JsonObject | None:
    """The fields of an object that has some: of a mapping, a dataclass, a named tuple, or a model; None for any other.

    Nothing is imported to find out: a plugin that answers with a dataclass has loaded what it takes, and others need
    not pay for it.
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
        give = getattr(value, method, None)
        if callable(give):
            found = give()
            return cast("JsonObject", found) if isinstance(found, dict) else None
    return None

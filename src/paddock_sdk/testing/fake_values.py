"""Converts values of a plugin's tables between JSON and SQLite, as the host does."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from typing import Any, cast

from paddock_sdk.faults import InvalidParams

_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def bind_params(params: Any) -> Any:
    """Return the values bound to the placeholders of a statement.

    Raises:
        InvalidParams: a value that SQLite cannot store.
    """
    if isinstance(params, dict):
        return {name: _bindable(value) for name, value in cast("dict[str, Any]", params).items()}
    return [_bindable(value) for value in cast("list[Any]", params or [])]


def _bindable(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case {"$base64": str(encoded)}:
            return b64decode(encoded, validate=True)
        case {"$number": ("Infinity" | "-Infinity") as number}:
            return _INFINITIES[number]
        case _:
            raise InvalidParams('a value is neither text, number nor null; bytes are {"$base64": "…"}')


def to_wire_value(value: Any) -> Any:
    """Return one value of a row as JSON."""
    if isinstance(value, bytes):
        return {"$base64": b64encode(value).decode("ascii")}
    if isinstance(value, float) and math.isinf(value):
        return {"$number": "Infinity" if value > 0 else "-Infinity"}
    return value


def unique_names(names: list[str]) -> list[str]:
    """Make column names unique: a repeated name gets a number, `id`, `id_2`, `id_3`."""
    unique: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in unique or (number > 1 and candidate in names):
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique

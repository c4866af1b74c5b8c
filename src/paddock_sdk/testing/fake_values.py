"""Values of a plugin's tables between JSON and SQLite, as the host writes them."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from typing import Any, cast

from paddock_sdk.faults import InvalidParams

_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def bind_params(params: Any) -> Any:
    """What is bound to the marks of a statement.

    Raises:
        InvalidParams: something that SQLite does not hold.
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
    """One value of a row as JSON has it."""
    if isinstance(value, bytes):
        return {"$base64": b64encode(value).decode("ascii")}
    if isinstance(value, float) and math.isinf(value):
        return {"$number": "Infinity" if value > 0 else "-Infinity"}
    return value


def unique_names(names: list[str]) -> list[str]:
    """The columns' names, each once: a name that comes again gets a number, `id`, `id_2`, `id_3`."""
    given: list[str] = []
    for name in names:
        chosen, number = name, 1
        while chosen in given or (number > 1 and chosen in names):
            number += 1
            chosen = f"{name}_{number}"
        given.append(chosen)
    return given

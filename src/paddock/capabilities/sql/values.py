"""Conversion between JSON and SQLite values.

    null, text, numbers     unchanged; true and false are 1 and 0 in SQLite and stay numbers
    {"$base64": "…"}        a blob, in both directions
    {"$number": "Infinity"} an infinity (or "-Infinity"), which JSON cannot express; SQLite has no NaN

Integers have 64 bits. JSON carries all of them, but JavaScript rounds those beyond 2^53: read them with
`CAST(n AS TEXT)` there.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from paddock.capabilities.params import invalid_param
from paddock.capabilities.sql.limits import MAX_PARAMS, MAX_VALUE_BYTES
from paddock.core.errors import CallerError

Bindable: TypeAlias = int | float | str | bytes | None
Bindings: TypeAlias = tuple[Bindable, ...] | dict[str, Bindable]

_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def read_bindings(params: Any) -> Bindings:
    """Read the parameters of a statement: a list for `?`, an object for `:name`.

    Raises:
        CallerError: they are neither, too many, or of a type that SQLite does not have.
    """
    if params is None:
        return ()
    if isinstance(params, list):
        values = cast("list[Any]", params)
        _check_param_count(len(values))
        return tuple([_bindable(value, number) for number, value in enumerate(values)])
    if isinstance(params, dict):
        by_name = cast("dict[str, Any]", params)
        _check_param_count(len(by_name))
        return {name: _bindable(value, name) for name, value in by_name.items()}
    raise invalid_param("params", "must be a list, or an object for named parameters")


def _check_param_count(count: int) -> None:
    if count > MAX_PARAMS:
        raise invalid_param(
            "params", f"has more than {MAX_PARAMS} values", "insert in several calls, in one transaction"
        )


def _bindable(value: Any, position: int | str) -> Bindable:
    match value:
        case None | float():
            return value
        case bool():
            return int(value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise invalid_param(f"params[{position}]", "does not fit in 64 bits", "send it as text")
            return value
        case str():
            if len(value) > MAX_VALUE_BYTES:
                raise invalid_param(f"params[{position}]", f"is longer than {MAX_VALUE_BYTES} bytes")
            if not value.isascii():
                _check_text(value, position)
            return value
        case {"$base64": str(encoded)} if len(cast("dict[str, Any]", value)) == 1:
            try:
                return b64decode(encoded, validate=True)
            except binascii.Error:
                raise invalid_param(f"params[{position}]", "is not base64") from None
        case {"$number": ("Infinity" | "-Infinity") as number} if len(cast("dict[str, Any]", value)) == 1:
            return _INFINITIES[number]
        case _:
            hint = 'keep it as JSON text; bytes are {"$base64": "…"}'
            raise invalid_param(f"params[{position}]", "is neither text, number nor null", hint)


def _check_text(text: str, position: int | str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid_param(f"params[{position}]", "holds half of a character", "use valid Unicode") from None


def unique_column_names(names: Iterable[str]) -> list[str]:
    """Make column names unique by numbering duplicates: `id`, `id_2`, `id_3`."""
    all_names = list(names)
    original_names = set(all_names)
    used: set[str] = set()
    unique: list[str] = []
    for name in all_names:
        candidate, number = name, 1
        while candidate in used or (number > 1 and candidate in original_names):
            number += 1
            candidate = f"{name}_{number}"
        used.add(candidate)
        unique.append(candidate)
    return unique


def to_json_value(value: Bindable) -> Any:
    """Convert one SQLite value to JSON."""
    if isinstance(value, bytes):
        return {"$base64": b64encode(value).decode("ascii")}
    if isinstance(value, float) and math.isinf(value):
        return {"$number": "Infinity" if value > 0 else "-Infinity"}
    return value


def estimated_size(row: Iterable[Bindable]) -> int:
    """Return a lower estimate of the JSON bytes of a row's values."""
    return sum([len(value) + 4 if isinstance(value, (str, bytes)) else 8 for value in row])


def result_too_large_error(max_bytes: int) -> CallerError:
    """Build the error for a result that does not fit in a message."""
    return CallerError(
        f"the answer has more than {max_bytes} bytes",
        code="storage.result_too_large",
        hint="ask for less: name the columns, add LIMIT, and read on with WHERE id > ?",
    )


def as_objects(names: list[str], rows: Iterable[tuple[Bindable, ...]]) -> list[Mapping[str, Any]]:
    """Convert rows to objects by column name."""
    return [dict(zip(names, [to_json_value(value) for value in row], strict=True)) for row in rows]

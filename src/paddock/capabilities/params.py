"""Validation of request parameters, so that a bad request is rejected before it has any effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from paddock.core.errors import CallerError
from paddock.core.schema.json_value import json_problems


def invalid_param(name: str, problem: str, hint: str = "") -> CallerError:
    """Build the error for one invalid parameter."""
    return CallerError(f"{name} {problem}", code="invalid_params", hint=hint, details={"param": name})


def text_param(params: Mapping[str, Any], name: str, *, max_chars: int, default: str | None = None) -> str:
    """Read a string parameter. Empty text is only valid where there is a default.

    Raises:
        CallerError: it is missing, not text, too long, or contains what no file or database can store.
    """
    value = params.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise invalid_param(name, "must be text" if not isinstance(value, str) else "is empty")
    if len(value) > max_chars:
        raise invalid_param(name, f"is longer than {max_chars} characters")
    if "\0" in value:
        raise invalid_param(name, "holds a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid_param(name, "holds half of a character", "use valid Unicode") from None
    return value


def number_param(params: Mapping[str, Any], name: str, *, minimum: float, maximum: float, default: float) -> float:
    """Read a number within bounds; the default if it is missing or null.

    Raises:
        CallerError: it is not a number, or out of bounds.
    """
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid_param(name, "must be a number")
    if not minimum <= value <= maximum:
        raise invalid_param(name, f"must be from {minimum:g} to {maximum:g}")
    return value


def encode_json_param(name: str, value: Any, max_bytes: int) -> bytes:
    """Encode the parameter's value as JSON.

    Raises:
        CallerError: it is not JSON, or longer than `max_bytes` bytes.
    """
    problems = json_problems(value, text=max_bytes)
    if problems and problems[0].code != "too_large":
        raise invalid_param(name, f"cannot be kept: {problems[0].message}", problems[0].hint)
    try:
        encoded = b"" if problems else orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise invalid_param(name, "cannot be kept: a number does not fit in 64 bits", "send it as text") from None
    if problems or len(encoded) > max_bytes:
        raise invalid_param(name, f"is larger than {max_bytes} bytes", "keep less, or keep it in pieces")
    return encoded

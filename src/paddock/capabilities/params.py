"""Reading what a plugin sent along, so that a wrong request is told in words before anything happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from paddock.core.errors import CallerError
from paddock.core.schema.json_value import json_problems


def invalid_param(name: str, why: str, hint: str = "") -> CallerError:
    """The error for one parameter."""
    return CallerError(f"{name} {why}", code="invalid_params", hint=hint, details={"param": name})


def text_param(params: Mapping[str, Any], name: str, *, longest: int, default: str | None = None) -> str:
    """A string parameter, of at least one character unless the default is given or empty text is the default.

    Raises:
        CallerError: it is missing, no text, too long, or holds what no file and no database keeps.
    """
    value = params.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise invalid_param(name, "must be text" if not isinstance(value, str) else "is empty")
    if len(value) > longest:
        raise invalid_param(name, f"is longer than {longest} characters")
    if "\0" in value:
        raise invalid_param(name, "holds a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid_param(name, "holds half of a character", "use valid Unicode") from None
    return value


def number_param(params: Mapping[str, Any], name: str, *, least: float, most: float, default: float) -> float:
    """A number within bounds; the default where it is missing or null.

    Raises:
        CallerError: it is no number, or outside the bounds.
    """
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid_param(name, "must be a number")
    if not least <= value <= most:
        raise invalid_param(name, f"must be from {least:g} to {most:g}")
    return value


def encode_json_param(name: str, value: Any, most: int) -> bytes:
    """The value of this parameter as JSON.

    Raises:
        CallerError: it is no JSON, or longer than `most` bytes.
    """
    problems = json_problems(value, text=most)
    if problems and problems[0].code != "too_large":
        raise invalid_param(name, f"cannot be kept: {problems[0].message}", problems[0].hint)
    try:
        kept = b"" if problems else orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise invalid_param(name, "cannot be kept: a number does not fit in 64 bits", "send it as text") from None
    if problems or len(kept) > most:
        raise invalid_param(name, f"is larger than {most} bytes", "keep less, or keep it in pieces")
    return kept

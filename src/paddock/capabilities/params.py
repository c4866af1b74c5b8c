"""Reading what a plugin sent along, so that a wrong request is told in words before anything happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.errors import CallerError


def wrong(name: str, why: str, hint: str = "") -> CallerError:
    """The error for one parameter."""
    return CallerError(f"{name} {why}", code="invalid_params", hint=hint, details={"param": name})


def text(params: Mapping[str, Any], name: str, *, longest: int, default: str | None = None) -> str:
    """A string parameter, of at least one character unless the default is given or empty text is the default.

    Raises:
        CallerError: it is missing, no text, too long, or holds what no file and no database keeps.
    """
    value = params.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise wrong(name, "must be text" if not isinstance(value, str) else "is empty")
    if len(value) > longest:
        raise wrong(name, f"is longer than {longest} characters")
    if "\0" in value:
        raise wrong(name, "holds a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise wrong(name, "holds half of a character", "use valid Unicode") from None
    return value


def number(params: Mapping[str, Any], name: str, *, least: float, most: float, default: float) -> float:
    """A number within bounds; the default where it is missing or null.

    Raises:
        CallerError: it is no number, or outside the bounds.
    """
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(name, "must be a number")
    if not least <= value <= most:
        raise wrong(name, f"must be from {least:g} to {most:g}")
    return value

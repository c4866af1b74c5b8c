"""Turning one written value into the value a setting means, or into the sentence that says why not."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, cast

from paddock.config.setting import Kind, Setting
from paddock.core.printable import printable

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_IN_WORDS = {
    Kind.BOOLEAN: "true or false",
    Kind.INTEGER: "a whole number",
    Kind.NUMBER: "a number",
    Kind.TEXT: "text",
    Kind.NAMES: "a list of names",
    Kind.WORDS: "a list of words",
}

_LARGEST_NUMBER = 10**18


class BadValueError(ValueError):
    """The value does not fit its setting; the text says why, the code says which kind of mistake."""

    def __init__(self, message: str, *, hint: str = "", code: str = "config.type") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def accept(setting: Setting, written: object, *, from_text: bool) -> Any:
    """The value this setting takes from what was written.

    Args:
        setting: The row it is for.
        written: A TOML value, or text from the environment or a flag.
        from_text: Whether text may stand for booleans, numbers and comma-separated lists.

    Raises:
        BadValueError: Wrong type, out of bounds, or a value that would loosen the cage.
    """
    value = _parse(setting, written) if from_text and isinstance(written, str) else _typed(setting, written)
    if setting.fixed and value != setting.default:
        raise BadValueError(
            f"{shown(setting, value)} would loosen the cage, which Paddock never does",
            hint=f"leave it out, or set it to {shown(setting, setting.default)}",
            code="config.loosens_cage",
        )
    if setting.choices and value not in setting.choices:
        raise BadValueError(
            f"{shown(setting, value)} is not one of {', '.join(setting.choices)}", code="config.out_of_bounds"
        )
    _check_bounds(setting, value)
    if setting.check and (complaint := setting.check(value)):
        raise BadValueError(complaint, code="config.out_of_bounds")
    return value


def shown(setting: Setting, value: object) -> str:
    """The value as a person may see it: without passwords, control characters or endless length."""
    if value is None:
        return "unset"
    if setting.sensitive:
        return _without_credentials(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return printable(",".join(str(part) for part in cast("tuple[object, ...]", value)))
    return printable(str(value))


def _parse(setting: Setting, text: str) -> Any:
    """Text from the environment, a flag or a substituted variable, as the setting's type."""
    stripped = text.strip()
    match setting.kind:
        case Kind.BOOLEAN:
            if stripped.lower() in _TRUE | _FALSE:
                return stripped.lower() in _TRUE
            raise BadValueError(f"{shown(setting, text)} is neither true nor false")
        case Kind.INTEGER:
            # The length is bounded first: int() of endless digits takes endless time.
            if re.fullmatch(r"[+-]?[0-9]{1,18}", stripped):
                return int(stripped)
            raise BadValueError(f"{shown(setting, text)} is not a whole number")
        case Kind.NUMBER:
            try:
                return float(stripped if len(stripped) <= 64 else "too long")
            except ValueError:
                raise BadValueError(f"{shown(setting, text)} is not a number") from None
        case Kind.NAMES | Kind.WORDS:
            return tuple(_spelled(setting, part.strip()) for part in text.split(",") if part.strip())
        case _:
            return stripped


def _typed(setting: Setting, written: object) -> Any:
    """A value that already has a type, checked against the setting's."""
    match setting.kind:
        case Kind.BOOLEAN if isinstance(written, bool):
            return written
        case Kind.INTEGER | Kind.NUMBER if isinstance(written, int) and abs(written) > _LARGEST_NUMBER:
            raise BadValueError("the number is too large")
        case Kind.INTEGER if isinstance(written, int) and not isinstance(written, bool):
            return written
        case Kind.NUMBER if isinstance(written, int | float) and not isinstance(written, bool):
            return float(written)
        case Kind.TEXT if isinstance(written, str):
            return written
        case Kind.NAMES | Kind.WORDS if isinstance(written, list | tuple):
            parts = cast("Sequence[object]", written)
            if all(isinstance(part, str) for part in parts):
                return tuple(_spelled(setting, str(part)) for part in parts)
        case _:
            pass
    raise BadValueError(f"expected {_IN_WORDS[setting.kind]}, found {_found(cast('object', written))}")


def _spelled(setting: Setting, part: str) -> str:
    return part if setting.kind is Kind.WORDS else part.lower()


def _found(written: object) -> str:
    """What kind of thing was written, in words; never the thing itself, which may be a secret."""
    match written:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a table"
        case list() | tuple():
            return "a list"
        case _:
            return "a date or time"


def _check_bounds(setting: Setting, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    low, high = setting.minimum, setting.maximum
    if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        raise BadValueError(
            f"{plain_number(value)} is out of bounds",
            hint=f"from {plain_number(low)} to {plain_number(high)}" if low is not None and high is not None else "",
            code="config.out_of_bounds",
        )


def plain_number(number: float) -> str:
    """A number as people write it: no exponent, and no fraction where there is none."""
    return str(int(number)) if math.isfinite(number) and number == int(number) else str(number)


def _without_credentials(value: object) -> str:
    if not isinstance(value, str):
        return "(hidden)"
    if "://" not in value:
        return printable(value)
    # Imported here: most commands never show an address, and start-up time counts.
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        return printable(f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}")
    except ValueError:
        return "(hidden)"

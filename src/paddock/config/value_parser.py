"""Parses a written value to the type of its setting, or says why it cannot be."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, cast

from paddock.config.setting_spec import SettingKind, SettingSpec
from paddock.core.printable import printable

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_KIND_TEXT = {
    SettingKind.BOOLEAN: "true or false",
    SettingKind.INTEGER: "a whole number",
    SettingKind.NUMBER: "a number",
    SettingKind.TEXT: "text",
    SettingKind.NAMES: "a list of names",
    SettingKind.WORDS: "a list of words",
}

_MAX_NUMBER = 10**18


class InvalidSettingValue(ValueError):
    """The value does not fit its setting; the text says why, the code says which kind of mistake."""

    def __init__(self, message: str, *, hint: str = "", code: str = "config.type") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def parse_setting(setting: SettingSpec, raw: object, *, from_text: bool) -> Any:
    """Parse a written value for this setting.

    Args:
        setting: The row it is for.
        raw: A TOML value, or text from the environment or a flag.
        from_text: Whether text may stand for booleans, numbers and comma-separated lists.

    Raises:
        InvalidSettingValue: Wrong type, out of bounds, a value that would loosen the cage, or a reserved setting.
    """
    if setting.reserved:
        raise InvalidSettingValue(
            f"{setting.name} is reserved for {setting.reserved}, which Paddock does not have yet",
            hint="remove it: it would have no effect",
            code="config.reserved_setting",
        )
    value = _parse_text(setting, raw) if from_text and isinstance(raw, str) else _check_typed(setting, raw)
    if setting.fixed and value != setting.default:
        raise InvalidSettingValue(
            f"{format_setting(setting, value)} would loosen the cage, which Paddock never does",
            hint=f"leave it out, or set it to {format_setting(setting, setting.default)}",
            code="config.loosens_cage",
        )
    if setting.choices and value not in setting.choices:
        raise InvalidSettingValue(
            f"{format_setting(setting, value)} is not one of {', '.join(setting.choices)}", code="config.out_of_bounds"
        )
    _check_bounds(setting, value)
    if setting.check and (problem := setting.check(value)):
        raise InvalidSettingValue(problem, code="config.out_of_bounds")
    return value


def format_setting(setting: SettingSpec, value: object) -> str:
    """Format the value for people: without passwords, control characters or unlimited length."""
    if value is None:
        return "unset"
    if setting.sensitive:
        return _without_credentials(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return printable(",".join(str(part) for part in cast("tuple[object, ...]", value)))
    return printable(str(value))


def _parse_text(setting: SettingSpec, text: str) -> Any:
    """Parse text from the environment, a flag or a substituted variable to the setting's type."""
    stripped = text.strip()
    match setting.kind:
        case SettingKind.BOOLEAN:
            if stripped.lower() in _TRUE | _FALSE:
                return stripped.lower() in _TRUE
            raise InvalidSettingValue(f"{format_setting(setting, text)} is neither true nor false")
        case SettingKind.INTEGER:
            # The length is limited first: int() of very many digits takes very long.
            if re.fullmatch(r"[+-]?[0-9]{1,18}", stripped):
                return int(stripped)
            raise InvalidSettingValue(f"{format_setting(setting, text)} is not a whole number")
        case SettingKind.NUMBER:
            try:
                return float(stripped if len(stripped) <= 64 else "too long")
            except ValueError:
                raise InvalidSettingValue(f"{format_setting(setting, text)} is not a number") from None
        case SettingKind.NAMES | SettingKind.WORDS:
            return tuple(_normalize_item(setting, part.strip()) for part in text.split(",") if part.strip())
        case _:
            return stripped


def _check_typed(setting: SettingSpec, raw: object) -> Any:
    """Check a value that already has a type."""
    match setting.kind:
        case SettingKind.BOOLEAN if isinstance(raw, bool):
            return raw
        case SettingKind.INTEGER | SettingKind.NUMBER if isinstance(raw, int) and abs(raw) > _MAX_NUMBER:
            raise InvalidSettingValue("the number is too large")
        case SettingKind.INTEGER if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        case SettingKind.NUMBER if isinstance(raw, int | float) and not isinstance(raw, bool):
            return float(raw)
        case SettingKind.TEXT if isinstance(raw, str):
            return raw
        case SettingKind.NAMES | SettingKind.WORDS if isinstance(raw, list | tuple):
            parts = cast("Sequence[object]", raw)
            if all(isinstance(part, str) for part in parts):
                return tuple(_normalize_item(setting, str(part)) for part in parts)
        case _:
            pass
    raise InvalidSettingValue(f"expected {_KIND_TEXT[setting.kind]}, found {_describe_kind(cast('object', raw))}")


def _normalize_item(setting: SettingSpec, part: str) -> str:
    return part if setting.kind is SettingKind.WORDS else part.lower()


def _describe_kind(raw: object) -> str:
    """The type of the written value, in words; never the value itself, which may be a secret."""
    match raw:
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


def _check_bounds(setting: SettingSpec, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    low, high = setting.minimum, setting.maximum
    if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        raise InvalidSettingValue(
            f"{format_number(value)} is out of bounds",
            hint=f"from {format_number(low)} to {format_number(high)}" if low is not None and high is not None else "",
            code="config.out_of_bounds",
        )


def format_number(number: float) -> str:
    """Format a number without an exponent, and without a fraction where there is none."""
    return str(int(number)) if math.isfinite(number) and number == int(number) else str(number)


def _without_credentials(value: object) -> str:
    if not isinstance(value, str):
        return "(hidden)"
    if "://" not in value:
        return printable(value)
    # Imported here: most commands never show a URL, and start-up time counts.
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        return printable(f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}")
    except ValueError:
        return "(hidden)"

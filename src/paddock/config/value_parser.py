"""Turning one written value into the value a setting means, or into the sentence that says why not."""

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


def parse_setting(setting: SettingSpec, written: object, *, from_text: bool) -> Any:
    """The value this setting takes from what was written.

    Args:
        setting: The row it is for.
        written: A TOML value, or text from the environment or a flag.
        from_text: Whether text may stand for booleans, numbers and comma-separated lists.

    Raises:
        BadValueError: Wrong type, out of bounds, or a value that would loosen the cage.
    """
    value = _parse_text(setting, written) if from_text and isinstance(written, str) else _check_typed(setting, written)
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
    if setting.check and (complaint := setting.check(value)):
        raise InvalidSettingValue(complaint, code="config.out_of_bounds")
    return value


def format_setting(setting: SettingSpec, value: object) -> str:
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


def _parse_text(setting: SettingSpec, text: str) -> Any:
    """Text from the environment, a flag or a substituted variable, as the setting's type."""
    stripped = text.strip()
    match setting.kind:
        case SettingKind.BOOLEAN:
            if stripped.lower() in _TRUE | _FALSE:
                return stripped.lower() in _TRUE
            raise InvalidSettingValue(f"{format_setting(setting, text)} is neither true nor false")
        case SettingKind.INTEGER:
            # The length is bounded first: int() of endless digits takes endless time.
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


def _check_typed(setting: SettingSpec, written: object) -> Any:
    """A value that already has a type, checked against the setting's."""
    match setting.kind:
        case SettingKind.BOOLEAN if isinstance(written, bool):
            return written
        case SettingKind.INTEGER | SettingKind.NUMBER if isinstance(written, int) and abs(written) > _MAX_NUMBER:
            raise InvalidSettingValue("the number is too large")
        case SettingKind.INTEGER if isinstance(written, int) and not isinstance(written, bool):
            return written
        case SettingKind.NUMBER if isinstance(written, int | float) and not isinstance(written, bool):
            return float(written)
        case SettingKind.TEXT if isinstance(written, str):
            return written
        case SettingKind.NAMES | SettingKind.WORDS if isinstance(written, list | tuple):
            parts = cast("Sequence[object]", written)
            if all(isinstance(part, str) for part in parts):
                return tuple(_normalize_item(setting, str(part)) for part in parts)
        case _:
            pass
    raise InvalidSettingValue(f"expected {_KIND_TEXT[setting.kind]}, found {_describe_kind(cast('object', written))}")


def _normalize_item(setting: SettingSpec, part: str) -> str:
    return part if setting.kind is SettingKind.WORDS else part.lower()


def _describe_kind(written: object) -> str:
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

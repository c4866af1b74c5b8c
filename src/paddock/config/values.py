"""Turning one written value into the value a setting means, or into the sentence that says why not."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from paddock.config.settings import Setting

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z"
)
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_LONGEST_SHOWN = 80


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


def printable(text: str) -> str:
    """Text that is safe on a terminal: one line, bounded, every control character written out."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape", "replace").decode() for char in text)
    return safe if len(safe) <= _LONGEST_SHOWN else safe[: _LONGEST_SHOWN - 1] + "…"


def check_host_names(value: Sequence[str]) -> str | None:
    """A complaint when one of these is not a plain host name."""
    wrong = [name for name in value if not _HOST_NAME.match(name)]
    return f"not a host name: {', '.join(printable(name) for name in wrong)}" if wrong else None


def check_address(value: str) -> str | None:
    """A complaint when this is not `host:port`."""
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        return f"{printable(value)} is not host:port with a port from 1 to 65535"
    if host.startswith("[") and host.endswith("]"):
        import ipaddress

        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return f"{printable(host)} is not an IPv6 address"
    elif not _HOST_NAME.match(host.lower()):
        return f"{printable(host)} is not a host name or address"
    return None


def check_store_url(value: str | None) -> str | None:
    """A complaint when this names no database we speak to. Never repeats the value: it may hold a password."""
    if value is None or value.startswith(("postgresql://", "postgres://")):
        return None
    if PurePosixPath(value).is_absolute() and "\0" not in value:
        return None
    return "neither an absolute path of a SQLite file nor a postgresql:// address"


def _parse(setting: Setting, text: str) -> Any:
    """Text from the environment, a flag or a substituted variable, as the setting's type."""
    stripped = text.strip()
    match setting.kind.value:
        case "boolean":
            if stripped.lower() in _TRUE | _FALSE:
                return stripped.lower() in _TRUE
            raise BadValueError(f"{shown(setting, text)} is neither true nor false")
        case "integer":
            # The length is bounded first: int() of endless digits takes endless time.
            if re.fullmatch(r"[+-]?[0-9]{1,18}", stripped):
                return int(stripped)
            raise BadValueError(f"{shown(setting, text)} is not a whole number")
        case "number":
            try:
                return float(stripped[:64])
            except ValueError:
                raise BadValueError(f"{shown(setting, text)} is not a number") from None
        case "list of names":
            return tuple(part.strip().lower() for part in text.split(",") if part.strip())
        case _:
            return stripped


def _typed(setting: Setting, written: object) -> Any:
    """A value that already has a type, checked against the setting's."""
    match setting.kind.value:
        case "boolean" if isinstance(written, bool):
            return written
        case "integer" if isinstance(written, int) and not isinstance(written, bool):
            return written
        case "number" if isinstance(written, int | float) and not isinstance(written, bool):
            return float(written)
        case "text" if isinstance(written, str):
            return written
        case "list of names" if isinstance(written, list | tuple):
            parts = cast("Sequence[object]", written)
            if all(isinstance(part, str) for part in parts):
                return tuple(str(part).lower() for part in parts)
        case _:
            pass
    found = "a table" if isinstance(written, dict) else type(cast("object", written)).__name__
    raise BadValueError(f"expected {setting.kind.value}, found {found}")


def _check_bounds(setting: Setting, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    low, high = setting.minimum, setting.maximum
    if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        raise BadValueError(
            f"{value:g} is out of bounds",
            hint=f"from {low:g} to {high:g}" if low is not None and high is not None else "",
            code="config.out_of_bounds",
        )


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

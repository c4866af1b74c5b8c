"""Parses TOML into plain values."""

from __future__ import annotations

import math
import re
import tomllib
from typing import Any, cast

from paddock.manifest.syntax.document import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    ParsedDocument,
    check_size,
    invalid_file_error,
    too_deep_error,
)

_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)\s*$")


def parse_toml(name: str, text: str, max_values: int = MAX_VALUES) -> ParsedDocument:
    """Parse a TOML document. Dates, and numbers that JSON does not have, become text.

    Raises:
        Invalid: it is not TOML, or too deep or too large.
    """
    try:
        value = _plain(tomllib.loads(text), MAX_DEPTH)
    except RecursionError:
        raise too_deep_error(name) from None
    except ValueError as error:  # also a number with too many digits
        match = _POSITION.search(str(error))
        line = int(match[1]) if match and match[1] else None
        message = f"is not TOML: {_POSITION.sub('', str(error))}"
        raise invalid_file_error(name, message, line=line, code="malformed") from None
    check_size(name, value, max_values)
    return ParsedDocument(name, value)


def _plain(value: Any, depth: int) -> Any:
    if depth < 0:
        raise RecursionError
    if isinstance(value, dict):
        return {key: _plain(item, depth - 1) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(item, depth - 1) for item in cast("list[Any]", value)]
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**MAX_DIGITS else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)

"""JSON parsing with limits, shared by HTTP bodies and command line arguments."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import orjson

from paddock.core.errors import Invalid, Problem
from paddock.core.schema.json_value import MAX_DEPTH, is_deeper_than
from paddock.rpc.framing import MAX_STRUCTURE_TOKENS
from paddock.rpc.message import StructureCounter

MAX_JSON_BYTES = 1024 * 1024
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
_LONG_DIGITS = re.compile(rb"\d{19}")

_KIND_TEXT: dict[type, str] = {dict: "an object", list: "a list", str: "text", bool: "true or false"}


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        Invalid: it is not JSON, not an object, or exceeds what a plugin can be sent.
    """
    value = parse_json_value(raw)
    if not isinstance(value, dict):
        raise _invalid(f"is {json_kind(value)}, not an object", 'send {"name": value, …}', "wrong_type")
    return cast("dict[str, Any]", value)


def parse_json_value(raw: bytes) -> Any:
    """Parse a JSON value.

    Raises:
        Invalid: it is not JSON, or exceeds what a plugin can be sent.
    """
    # Count before parsing: a mebibyte of brackets becomes a hundred mebibytes of lists.
    if len(raw) > MAX_STRUCTURE_TOKENS and StructureCounter().count(raw) > MAX_STRUCTURE_TOKENS:
        raise _invalid(
            f"has more than {MAX_STRUCTURE_TOKENS:,} brackets, commas and colons", "make it smaller", "too_large"
        )
    try:
        value: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _invalid(f"is not JSON: {error}", "send a JSON object", "not_json") from None
    if is_deeper_than(value):
        raise _invalid(f"is nested more than {MAX_DEPTH} levels deep", "make it flatter", "too_deep")
    if _LONG_DIGITS.search(raw):
        _require_exact_numbers(raw)
    return value


def _require_exact_numbers(raw: bytes) -> None:
    """Reject integers outside 64 bits: orjson silently rounds them to floats."""

    def parse_exact(digits: str) -> int:
        if len(digits) > 20 or not MIN_INTEGER <= int(digits) <= MAX_INTEGER:
            # Without the digits: they may be a secret that should have been text.
            raise _invalid("has a number that does not fit in 64 bits", "send it as text", "number_too_big")
        return int(digits)

    json.loads(raw, parse_int=parse_exact)


def json_kind(value: object) -> str:
    """Name the type of a JSON value for messages."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "a number"
    return "null" if value is None else _KIND_TEXT[type(value)]


def _invalid(message: str, hint: str, code: str) -> Invalid:
    return Invalid("the body is not valid", [Problem("", message, hint, code)], code="invalid_request")

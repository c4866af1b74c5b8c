"""Whether stored text is a JSON object in canonical form (RFC 8785): only that is hashed alike by everyone. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import orjson

from paddock.core.canonical import MAX_SAFE_INTEGER, canonical_bytes
from paddock.core.errors import CallerError
from paddock.ledger.stored_row import CALL_GAP, GAP, REQUEST_GAP

_MAX_PLAIN_DIGITS = 16  # digits of the largest integers that JSON keeps exactly
_UNUSUAL_NUMBER = re.compile(r"[:,\[]-?\d+[.eE]|[:,\[]-?\d{16}")
"""Numbers that orjson may encode differently from RFC 8785: fractions, exponents and large integers."""
_PLAIN = r'(?:"[ !#-\[\]-~]*"|-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,4}[1-9])?|true|false|null|\[\]|\{\})'
_PLAIN_VALUES = re.compile(_PLAIN + r"(?:" + GAP.decode() + _PLAIN + r")*")
_SAMPLES = (
    ((REQUEST_GAP, b'"x"'), (CALL_GAP, b'"x"'), (GAP, b"0")),
    ((REQUEST_GAP, b"null"), (CALL_GAP, b"null"), (GAP, b'"s"')),
)
"""Two of each, so that a gap within a value, or in the place of a fact by which entries are listed, is noticed."""


def canonical_object(text: str) -> dict[str, Any] | None:
    """Return the object that a column holds; None where it is not an object in canonical form."""
    try:
        # The common case, in a third of the time.
        if text.isascii():
            given = text.encode()
            value = orjson.loads(given)
            if type(value) is dict:
                fields = cast("dict[str, Any]", value)
                if _holds_texts(fields) or _UNUSUAL_NUMBER.search(text) is None:
                    return fields if orjson.dumps(fields, option=orjson.OPT_SORT_KEYS) == given else None
        value = json.loads(text, parse_int=_parse_number)
        encoded = canonical_bytes(value)
    except (TypeError, ValueError, RecursionError, CallerError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and encoded == text.encode() else None


def _holds_texts(value: dict[str, Any]) -> bool:
    """Whether all values of an object are text, for which all encoders agree."""
    for one in value.values():  # noqa: SIM110 - a loop takes half the time of `all` here
        if type(one) is not str:
            return False
    return True


def _parse_number(digits: str) -> int | float:
    """Parse an integer; beyond 2^53 it is RFC 8785's notation of a float."""
    return int(digits) if len(digits) < _MAX_PLAIN_DIGITS or abs(int(digits)) <= MAX_SAFE_INTEGER else float(digits)


def are_plain_values(values: str) -> bool:
    """Whether texts that fill a template are each canonical JSON, as nearly all are; False if that is not certain."""
    return not values or (_PLAIN_VALUES.fullmatch(values) is not None and "-0" not in values)


def canonical_samples(template: bytes) -> list[dict[str, Any]]:
    """Return the objects that a template makes with sample values; none if one of them is not canonical."""
    made: list[dict[str, Any]] = []
    for samples in _SAMPLES:
        text = template
        for gap, sample in samples:
            text = text.replace(gap, sample)
        try:
            value = canonical_object(text.decode())
        except ValueError:
            return []
        if value is None:
            return []
        made.append(value)
    return made

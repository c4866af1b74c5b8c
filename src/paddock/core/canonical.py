"""Canonical JSON: one value, one sequence of bytes (JSON Canonicalization Scheme, RFC 8785).

Hashes, signatures and approvals are over these bytes. Nearly every value takes a fast path through orjson; the
few for which orjson's key order or number format differ from the standard go through the reference library.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, cast

import orjson
import rfc8785

from paddock.core.errors import CallerError

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 200

# Numbers that orjson may write differently from the standard: fractions and exponents. A string that merely looks like
# one costs time and nothing else. It begins with a set of bytes and not with an alternative, for which `re` is three
# times as slow.
_FRACTION = re.compile(rb"[:,\[]-?\d+[.eE]")
_SORTED_DIFFERENTLY = re.compile(rb"[\xed-\xff]")  # where keys may be: the standard sorts by UTF-16 units
_NON_NUMBER_STARTS = b'{["tfn'  # first bytes of values other than numbers
_SORTED_STRICT = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_SHA256 = hashlib.sha256()


def canonical_bytes(value: object) -> bytes:
    """The RFC 8785 form of a JSON value.

    Raises:
        CallerError: The value has no such form (NaN, integers beyond 2^53, lone surrogates, keys that are not
            text, other types, nesting deeper than `MAX_DEPTH`).
    """
    odd: list[object] = []
    normal = _normalize(value, MAX_DEPTH, odd)
    try:
        # rfc8785 sorts by UTF-16 units and writes exponents as the standard does; orjson is six times as fast.
        return rfc8785.dumps(cast("Any", normal)) if odd else orjson.dumps(normal, option=orjson.OPT_SORT_KEYS)
    except (rfc8785.CanonicalizationError, orjson.JSONEncodeError, UnicodeEncodeError) as error:
        raise _not_canonical_error(str(error)) from error


def sha256_of(value: object) -> str:
    """`sha256:<hex>` of the canonical bytes."""
    return "sha256:" + hashlib.sha256(canonical_bytes(value)).hexdigest()


def hash_of(value: object) -> str:
    """Hash any JSON value, fast, since this is done for every call.

    A value without a canonical form, such as integers beyond 2^53, gives `sha256-as-written:` of its sorted JSON.
    Values that JSON cannot express are hashed as they are sent: NaN is null.
    """
    try:
        encoded = orjson.dumps(value, option=_SORTED_STRICT)
        # Without numbers that are written differently, and keys that are sorted differently, this is the canonical
        # form.
        same_order = encoded.isascii() or _SORTED_DIFFERENTLY.search(encoded) is None
        if same_order and encoded[0] in _NON_NUMBER_STARTS and _FRACTION.search(encoded) is None:
            digest = _SHA256.copy()  # copying takes two thirds of the time that creating one does
            digest.update(encoded)
            return "sha256:" + digest.hexdigest()
        return sha256_of(value)
    except (orjson.JSONEncodeError, CallerError):
        return "sha256-as-written:" + hashlib.sha256(_fallback_bytes(value)).hexdigest()


def _fallback_bytes(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        # No JSON at all, such as a lone surrogate: it reaches no plugin, but is recorded all the same.
        return repr(value).encode(errors="backslashreplace")


def _normalize(value: object, depth: int, odd: list[object]) -> object:
    """A checked copy with one spelling for each number; collects in `odd` what orjson would write differently."""
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        if -MAX_SAFE_INTEGER <= cast("int", value) <= MAX_SAFE_INTEGER:
            return value
        raise _not_canonical_error("an integer is beyond 2^53 - 1, where JSON numbers lose digits")
    if not depth:
        raise _not_canonical_error(f"it is nested more than {MAX_DEPTH} levels deep")
    if kind is dict:
        fields = cast("dict[Any, Any]", value)
        for key in fields:
            if type(key) is not str:
                raise _not_canonical_error(f"the key {str(key)[:40]!r} is not text")
            # The standard sorts by UTF-16 units, orjson by UTF-8; they differ only from here on.
            if not key.isascii() and max(key) >= "\ud800":
                odd.append(key)
        return {key: _normalize(inner, depth - 1, odd) for key, inner in fields.items()}
    if kind is list or kind is tuple:
        return [_normalize(inner, depth - 1, odd) for inner in cast("list[Any]", value)]
    if kind is float:
        return _normalize_float(cast("float", value), odd)
    raise _not_canonical_error(f"a value of kind {kind.__name__} has no place in JSON")


def _normalize_float(number: float, odd: list[object]) -> float | int:
    if number.is_integer() and abs(number) <= MAX_SAFE_INTEGER:
        return int(number)  # 1.0 is written 1, and -0.0 is written 0
    if not 1e-5 <= abs(number) <= MAX_SAFE_INTEGER:
        odd.append(number)  # exponents are spelled differently; the slow path refuses NaN and infinity
    return number


def _not_canonical_error(reason: str) -> CallerError:
    return CallerError(f"the value cannot be written as canonical JSON: {reason[:200]}", code="canonical.impossible")

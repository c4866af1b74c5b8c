"""Canonical bytes are those of RFC 8785, and impossible values are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fixtures.all_cases import all_cases
from paddock.core.canonical import canonical_bytes, hash_of, sha256_of
from paddock.core.errors import CallerError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5), max_leaves=20
)


@given(values)
def test_the_bytes_are_those_of_the_reference_implementation(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(values)
def test_reading_canonical_bytes_and_writing_them_again_changes_nothing(value: Any) -> None:
    once = canonical_bytes(value)
    # Every JSON number is a double to this standard: 1e20 is written with all its digits and is still no integer.
    assert canonical_bytes(json.loads(once, parse_int=float)) == once


def test_key_order_and_number_spelling_do_not_matter() -> None:
    assert canonical_bytes({"b": 1.0, "a": -0.0}) == b'{"a":0,"b":1}'
    assert canonical_bytes((1, 2)) == b"[1,2]"
    assert sha256_of({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_keys_are_sorted_by_utf_16_units() -> None:
    # U+1F600 is a surrogate pair and so comes before U+FB33, though its code point is greater.
    assert list(json.loads(canonical_bytes({"\ufb33": 1, "\U0001f600": 2, "a": 3}))) == ["a", "\U0001f600", "\ufb33"]


class Colour(IntEnum):
    RED = 1


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@all_cases(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53,
        -(2**53),
        {"\ufb33": 2**60},
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 2},
        {"a": {True: 1}},
        b"bytes",
        {1, 2},
        datetime.now(UTC),
        Colour.RED,
        object(),
        deep(201),
        {"\ufb33": Colour.RED},
        {"\ufb33": deep(100_000)},
        deep(100_000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(CallerError) as caught:
        canonical_bytes(value)
    assert caught.value.error_code == "canonical.impossible"


@given(values)
def test_the_quick_hash_is_that_of_the_canonical_bytes(value: Any) -> None:
    assert hash_of(value) == sha256_of(value)


@pytest.mark.parametrize("value", [1.5, 1e30, 1e-7, {"a": 1e16}, [0.1], {"ｚ": 1, "😀": 2}, {"a": -0.0}, [1e22, 2]])
def test_what_is_often_written_otherwise_is_hashed_as_the_standard_writes_it(value: Any) -> None:
    assert hash_of(value) == sha256_of(value)


@pytest.mark.parametrize("value", [2**60, {"n": 2**53}, {1: 2}, {"a": "\ud800"}, {"set": {1}}])
def test_what_has_no_canonical_form_is_hashed_as_it_is_written(value: Any) -> None:
    assert hash_of(value).startswith("sha256-as-written:")

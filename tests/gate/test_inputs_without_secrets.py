"""Inputs as they are kept: without what their schema, or their name, calls a secret."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.core.errors import Invalid
from paddock.core.schema.compile import compile_schema
from paddock.gate.calls.redact_inputs import REDACTED, redact_inputs, without_paths

SCHEMA = {
    "type": "object",
    "$defs": {"login": {"properties": {"pin": {"type": "integer", "writeOnly": True}}}},
    "properties": {
        "note": {"type": "string"},
        "code": {"type": "string", "x-secret": True},
        "phrase": {"type": "string", "format": "password"},
        "bound": {"type": "string", "x-binding": "secret"},
        "login": {"$ref": "#/$defs/login"},
        "loops": {"$ref": "#/properties/loops"},
        "logins": {"type": "array", "items": {"$ref": "#/$defs/login"}},
        "either": {"oneOf": [{"type": "string"}, {"properties": {"code": {"x-secret": True}}}]},
        "more": {"type": "object", "additionalProperties": {"format": "password"}},
        "lost": {"$ref": "#/nowhere"},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"writeOnly": True}]},
        "kind": {"if": {}, "then": {"properties": {"code": {"x-secret": True}}}},
        "many": {"anyOf": [{"writeOnly": True}, *({"const": number} for number in range(100))]},
    },
}


@pytest.mark.parametrize(
    ("inputs", "hidden"),
    [
        ({"note": "oats", "count": 3}, []),
        ({"code": "1", "phrase": "2", "bound": "3"}, ["code", "phrase", "bound"]),
        ({"login": {"pin": 7}, "logins": [{"pin": 8}, {}]}, ["login.pin", "logins.0.pin"]),
        ({"either": {"code": "x", "note": "y"}, "more": {"any": "z"}}, ["either.code", "more.any"]),
        (
            {"api_key": "a", "apiKey": "b", "accessToken": "c", "DB_PASSWORD": "d"},
            ["api_key", "apiKey", "accessToken", "DB_PASSWORD"],
        ),
        (
            {"headers": {"Authorization": "Bearer x"}, "list": [{"secret": "s"}]},
            ["headers.Authorization", "list.0.secret"],
        ),
        ({"tokens": 12, "max_token_count": 3, "secretary": "ann", "password": ""}, []),
        (
            {"headers": {"Cookie": ["a=b"], "Accept": ["*/*"]}, "credentials": {"user": "ann", "value": "x"}},
            ["headers.Cookie", "credentials"],
        ),
        ({"token": None, "secret": [], "password": {}, "cookie": True}, []),
        ({"pair": ["a", "b"], "kind": {"code": "x"}, "many": "c"}, ["pair.0", "pair.1", "kind.code", "many"]),
        ({"loops": {"loops": {}}, "lost": 1}, []),
    ],
)
def test_what_is_a_secret_is_left_out_wherever_it_is(inputs: dict[str, Any], hidden: list[str]) -> None:
    kept, paths = redact_inputs(inputs, SCHEMA)

    assert sorted(paths) == sorted(hidden)
    assert str(kept).count(REDACTED) == len(hidden)
    assert REDACTED not in str(without_paths(kept, paths))


def test_inputs_that_are_nested_without_end_are_left_out_where_they_are_too_deep() -> None:
    deep: Any = "bottom"
    for _ in range(200):
        deep = {"in": deep}

    kept, paths = redact_inputs(deep, {})

    assert "bottom" not in str(kept)
    assert len(paths) == 1


def test_a_schema_that_refers_to_an_index_of_thousands_of_digits_is_refused_and_hides_nothing_else() -> None:
    schema = {"allOf": [{}], "properties": {"a": {"$ref": f"#/allOf/{'9' * 5_000}"}, "b": {"writeOnly": True}}}

    assert redact_inputs({"a": 1, "b": 2}, schema) == ({"a": 1, "b": REDACTED}, ["b"])
    with pytest.raises(Invalid):
        compile_schema(schema)

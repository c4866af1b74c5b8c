"""Values to call a callable with, from its input schema."""

from __future__ import annotations

from typing import Any

from fixtures.all_cases import all_cases
from paddock.authoring.example_values import generate_examples
from paddock.core.schema.compile import compile_schema


def field(**schema: Any) -> dict[str, Any]:
    """An object with one field like this."""
    return {"type": "object", "required": ["it"], "properties": {"it": schema}}


@all_cases(
    "schema",
    [
        {"type": "object"},
        field(type="string", minLength=3),
        field(type="integer", minimum=5, multipleOf=4),
        field(type="number", exclusiveMinimum=0),
        field(type="integer", maximum=-3),
        field(enum=["x", "y"]),
        field(const={"deep": [1]}),
        field(type="string", format="uuid"),
        field(type="string", format="date-time"),
        field(type="string", pattern="^[A-Z]{3}$"),
        field(type="array", minItems=2, items={"type": "integer"}),
        field(type=["string", "null"]),
        {**field(**{"$ref": "#/$defs/word"}), "$defs": {"word": {"type": "string", "minLength": 2}}},
        {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "boolean"}}}]},
        {"type": "object", "oneOf": [{"required": ["a"], "properties": {"a": {"const": 1}}}, {"required": ["b"]}]},
        {"type": "object", "minProperties": 1, "properties": {"a": {"type": "integer"}}},
        True,
    ],
)
def test_the_value_that_is_made_fits_the_schema(schema: Any) -> None:
    (value,) = generate_examples(schema)

    assert compile_schema(schema).is_valid(value)


def test_examples_that_fit_come_before_anything_that_is_made_up() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "examples": [{"n": 7}, {}]}

    assert generate_examples(schema) == [{"n": 7}]


def test_where_no_value_can_be_found_there_is_none() -> None:
    schema = {"type": "object", "required": ["p"], "properties": {"p": {"type": "string", "pattern": "^x{3}-y{9}$"}}}

    assert generate_examples(schema) == []


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}

    assert generate_examples({"$defs": {"node": node}, "$ref": "#/$defs/node"}) == []

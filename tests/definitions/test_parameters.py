"""What a callable takes, said in words: from the schemas that authors and servers really write."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.plugins.tool_pinning.render import list_parameters, visible_text


def words(schema: Any) -> str:
    """The type of the only parameter."""
    (one,) = list_parameters(
        {"type": "object", "properties": {"x": schema}, "$defs": {"day": {"enum": ["mon", "tue"]}}}
    )
    return one.type


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "string (date-time)"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"type": "array"}, "list"),
        ({"$ref": "#/$defs/day"}, "string"),
        ({"type": "array", "items": {"$ref": "#/$defs/day"}}, "list of string"),
        ({"enum": [1, "a"]}, "integer or string"),
        ({"properties": {}}, "object"),
        ({"$ref": "#/$defs/nobody"}, "anything"),
        (True, "anything"),
        ({}, "anything"),
    ],
)
def test_a_type_is_said_in_words(schema: Any, said: str) -> None:
    assert words(schema) == said


def test_a_parameter_has_its_name_default_choices_and_description() -> None:
    schema = {
        "properties": {
            "day": {"$ref": "#/$defs/day", "description": "Which\u200b day", "default": "mon"},
            "always": {"const": 1},
            "maybe": {"type": "boolean", "default": None},
        },
        "required": ["day", "elsewhere", 3],
        "$defs": {"day": {"type": "string", "enum": ["mon", "tue"], "description": "A day"}},
    }
    always: Any
    maybe: Any
    day, always, maybe = (one.to_value() for one in list_parameters(schema))

    assert day == {
        "name": "day",
        "type": "string",
        "required": True,
        "description": "Which\\u200b day",
        "default": "mon",
        "enum": ["mon", "tue"],
    }
    assert (always["enum"], always["required"], "default" in always) == ([1], False, False)
    assert maybe["default"] is None


def test_parameters_of_the_schemas_it_is_composed_of_are_among_them() -> None:
    place = {"properties": {"place": {"type": "string"}}, "required": ["place"]}
    schema = {"allOf": [{"$ref": "#/$defs/place"}], "properties": {"when": {}}, "$defs": {"place": place}}

    assert {one.name: one.required for one in list_parameters(schema)} == {"place": True, "when": False}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        3,
        {"properties": 3, "required": "x", "allOf": {}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}] * 9},
        {"properties": {"x": {"$ref": "#/properties/x"}}},
        {"properties": {"x": {"type": "array", "items": {"$ref": "#/properties/x"}}}},
        {"properties": {"x": {"$ref": "#/%zz/~9", "type": 7, "enum": 3, "anyOf": 1, "description": 5}}},
    ],
)
def test_a_schema_that_makes_no_sense_or_no_end_is_still_read(schema: Any) -> None:
    assert len(list_parameters(schema)) <= 1


def test_a_text_keeps_its_lines_and_hides_nothing() -> None:
    assert visible_text("one\n\ttwo \x1b[31m\u202eeert\n") == "one\n two \\u001b[31m\\u202eeert"
    assert visible_text(None) == ""

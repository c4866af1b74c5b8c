"""Schemas of the API are generated from types: each kind of type, what it becomes, and what is refused."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import pytest
from starlette.requests import Request
from starlette.responses import Response

from paddock.core.schema_annotations import DateTime, MemberConstraint, NonNegativeInt
from paddock.web.routing.route import JsonResponse, response_type
from paddock.web.routing.schema_from_types import SchemaComponents, body_schema

Name = NewType("Name", str)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class LeafJson(TypedDict):
    name: Name


class TreeJson(TypedDict):
    """A tree."""

    leaves: Annotated[list[LeafJson], "From left to right."]
    parent: TreeJson | None
    height: NonNegativeInt | None
    planted_at: NotRequired[DateTime]


class TallTreeJson(TreeJson):
    colour: Colour


class PlantBody(TypedDict):
    kind: Literal["oak", "elm"]
    label: NotRequired[Annotated[str, MemberConstraint(max_length=5), "For people."]]
    owner: NotRequired[str | None]
    tags: NotRequired[list[str]]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Any, {}),
        (Name, {"type": "string"}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (bytes, {"type": "string", "format": "binary"}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (bool | dict[str, Any] | None, {"type": ["boolean", "object", "null"]}),
        (Colour | None, {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}]}),
        (
            Annotated[DateTime | None, "When."],
            {"type": ["string", "null"], "format": "date-time", "description": "When."},
        ),
    ],
)
def test_a_type_has_one_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert SchemaComponents().schema_of(hint) == schema


def test_a_typed_dict_is_a_component_with_its_inherited_members_and_its_docstring() -> None:
    components = SchemaComponents()

    assert components.schema_of(TallTreeJson) == {"$ref": "#/components/schemas/TallTree"}
    assert set(components.schemas) == {"TallTree", "Tree", "Leaf"}
    assert components.schemas["Tree"] == {
        "type": "object",
        "description": "A tree.",
        "properties": {
            "leaves": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Leaf"},
                "description": "From left to right.",
            },
            "parent": {"anyOf": [{"$ref": "#/components/schemas/Tree"}, {"type": "null"}]},
            "height": {"type": ["integer", "null"], "minimum": 0},
            "planted_at": {"type": "string", "format": "date-time"},
        },
        "required": ["leaves", "parent", "height"],
    }
    assert components.schemas["TallTree"]["required"] == ["leaves", "parent", "height", "colour"]


def test_a_body_takes_no_other_members_and_no_nul_in_its_texts() -> None:
    assert body_schema(PlantBody, {"kind": "oak"}) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["oak", "elm"]},
            "label": {"type": "string", "maxLength": 5, "description": "For people.", "pattern": "^[^\\u0000]*$"},
            "owner": {"type": ["string", "null"], "pattern": "^[^\\u0000]*$"},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[^\\u0000]*$"}},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "examples": [{"kind": "oak"}],
    }


def test_what_has_no_schema_is_a_mistake_of_ours() -> None:
    class Leaf(TypedDict):  # another component of the name of LeafJson
        size: int

    components = SchemaComponents()
    components.schema_of(LeafJson)

    for hint in (object(), complex, Literal[1], Leaf):
        with pytest.raises(TypeError):
            components.schema_of(hint)


def test_the_return_type_of_a_handler_is_what_it_answers() -> None:
    async def planted(request: Request) -> JsonResponse[LeafJson] | Response:
        del request
        return JsonResponse({"name": Name("oak")})

    async def untyped(request: Request) -> Response:
        del request
        return Response()

    assert response_type(planted) is LeafJson
    with pytest.raises(TypeError, match="untyped"):
        response_type(untyped)

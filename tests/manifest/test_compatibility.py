"""Schemas of two versions, and the version step that their difference asks for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.manifest.strategies import json_values, schemas

from fixtures.all_cases import all_cases
from paddock.core.schema import traversal
from paddock.core.semver import Version
from paddock.manifest.compatibility import CompatibilityLevel, compare_input, compare_output, version_step

NONE, ADDITIVE, BREAKING = CompatibilityLevel.NONE, CompatibilityLevel.ADDITIVE, CompatibilityLevel.BREAKING


def fields(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}

# what changed, before, after, what it means for what is accepted, what it means for what is answered
CHANGES: list[tuple[str, Any, Any, CompatibilityLevel, CompatibilityLevel]] = [
    ("nothing", fields(a=TEXT), fields(a=TEXT), NONE, NONE),
    ("words only", {"title": "a", "type": "string"}, {"title": "b", "type": "string", "default": "x"}, NONE, NONE),
    ("an optional field more", fields(a=TEXT), fields(a=TEXT, b=TEXT), ADDITIVE, ADDITIVE),
    ("a required field more", fields(a=TEXT), fields(("b",), a=TEXT, b=TEXT), BREAKING, ADDITIVE),
    ("a field now required", fields(a=TEXT), fields(("a",), a=TEXT), BREAKING, ADDITIVE),
    ("a field now optional", fields(("a",), a=TEXT), fields(a=TEXT), ADDITIVE, BREAKING),
    ("a field gone", fields(a=TEXT, b=TEXT), fields(a=TEXT), ADDITIVE, BREAKING),
    (
        "a field gone from a closed object",
        fields(a=TEXT, b=TEXT) | {"additionalProperties": False},
        fields(a=TEXT) | {"additionalProperties": False},
        BREAKING,
        BREAKING,
    ),
    ("an object closed", fields(a=TEXT), fields(a=TEXT) | {"additionalProperties": False}, BREAKING, ADDITIVE),
    ("an object opened", fields() | {"additionalProperties": False}, fields(), ADDITIVE, ADDITIVE),
    ("another type", TEXT, WHOLE, BREAKING, BREAKING),
    ("a wider type", WHOLE, {"type": "number"}, ADDITIVE, BREAKING),
    ("a narrower type", {"type": "number"}, WHOLE, BREAKING, ADDITIVE),
    ("null too", TEXT, {"type": ["string", "null"]}, ADDITIVE, BREAKING),
    ("a type at last", {}, TEXT, BREAKING, ADDITIVE),
    ("no type any more", TEXT, {}, ADDITIVE, BREAKING),
    ("a value more", {"enum": ["a"]}, {"enum": ["a", "b"]}, ADDITIVE, BREAKING),
    ("a value less", {"enum": ["a", "b"]}, {"enum": ["a"]}, BREAKING, ADDITIVE),
    ("another constant", {"const": 1}, {"const": 2}, BREAKING, BREAKING),
    ("a list of values", TEXT, {"type": "string", "enum": ["a"]}, BREAKING, ADDITIVE),
    ("a higher minimum", {"minimum": 1}, {"minimum": 2}, BREAKING, ADDITIVE),
    ("a lower minimum", {"minimum": 2}, {"minimum": 1}, ADDITIVE, BREAKING),
    ("a lower maximum", {"maxLength": 9}, {"maxLength": 5}, BREAKING, ADDITIVE),
    ("a limit gone", {"maxItems": 9}, {}, ADDITIVE, BREAKING),
    ("a pattern", TEXT, TEXT | {"pattern": "^a"}, BREAKING, ADDITIVE),
    ("another pattern", {"pattern": "^b"}, {"pattern": "^a"}, BREAKING, BREAKING),
    ("a pattern gone", {"pattern": "^b"}, {}, ADDITIVE, BREAKING),
    ("a format", TEXT, TEXT | {"format": "email"}, BREAKING, ADDITIVE),
    ("a format gone", TEXT | {"format": "email"}, TEXT, ADDITIVE, BREAKING),
    ("other items", {"items": TEXT}, {"items": WHOLE}, BREAKING, BREAKING),
    ("items described", {"type": "array"}, {"type": "array", "items": TEXT}, BREAKING, ADDITIVE),
    (
        "deep inside",
        fields(a=fields(b={"items": fields(c=TEXT)})),
        fields(a=fields(b={"items": fields(c=WHOLE)})),
        BREAKING,
        BREAKING,
    ),
    ("other alternatives", {"anyOf": [TEXT]}, {"anyOf": [TEXT, WHOLE]}, BREAKING, BREAKING),
    ("nothing is accepted", True, False, BREAKING, BREAKING),
    ("a schema at last", None, fields(("a",), a=TEXT), BREAKING, ADDITIVE),
    (
        "behind a reference",
        {"$ref": "#/$defs/x", "$defs": {"x": fields(a=TEXT)}},
        {"$ref": "#/$defs/x", "$defs": {"x": fields(("a",), a=TEXT)}},
        BREAKING,
        ADDITIVE,
    ),
    ("a reference for what it says", {"$ref": "#/$defs/x", "$defs": {"x": TEXT}}, TEXT, NONE, NONE),
]


def largest(differences: list[Any]) -> CompatibilityLevel:
    order = list(CompatibilityLevel)
    return max((difference.change for difference in differences), key=order.index, default=NONE)


@pytest.mark.req("K-16", "report at install")
@all_cases(("before", "after", "accepted", "answered"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_change_asks_for_the_step_that_callers_need(
    before: Any, after: Any, accepted: CompatibilityLevel, answered: CompatibilityLevel
) -> None:
    assert largest(compare_input(before, after)) == accepted, compare_input(before, after)
    assert largest(compare_output(before, after)) == answered, compare_output(before, after)


@given(schemas())
def test_a_schema_does_not_differ_from_itself(schema: dict[str, Any]) -> None:
    assert compare_input(schema, schema) == []
    assert compare_output(schema, schema) == []


@given(schemas(), schemas())
def test_what_is_breaking_one_way_is_noticed_the_other_way(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert bool(compare_input(old, new)) == bool(compare_input(new, old))


@given(json_values(), st.sampled_from(["type", "enum", "required", "properties", "items", "minimum", "$ref", "anyOf"]))
def test_a_schema_of_any_shape_can_be_compared(value: Any, key: str) -> None:
    found = [*compare_input({key: value}, {key: 1}), *compare_output({key: []}, {key: value})]

    assert all(difference.path and difference.message for difference in found)


def test_a_schema_that_refers_to_itself_is_compared_once() -> None:
    def tree(leaf: Any) -> dict[str, Any]:
        names = {f"n{index}": {"$ref": "#"} for index in range(20)}
        return {"type": "object", "properties": names | {"leaf": leaf}}

    assert [difference.path for difference in compare_input(tree(TEXT), tree(WHOLE))]


def test_a_reference_that_meets_two_written_schemas_is_compared_with_both() -> None:
    old = fields(a={"$ref": "#/$defs/x"}, b={"$ref": "#/$defs/x"}) | {"$defs": {"x": TEXT}}

    assert [found.path for found in compare_input(old, fields(a=dict(TEXT), b=dict(WHOLE)))] == ["input.b"]
    assert [found.path for found in compare_output(fields(a=dict(TEXT), b=dict(WHOLE)), old)] == ["output.b"]


def test_what_is_written_beside_a_reference_counts_wherever_it_stands() -> None:
    definitions = {"$defs": {"x": TEXT}}
    old = fields(a={"$ref": "#/$defs/x"}, b={"$ref": "#/$defs/x"}) | definitions
    new = fields(a={"$ref": "#/$defs/x"}, b={"$ref": "#/$defs/x", "maxLength": 3}) | definitions

    assert largest(compare_input(old, new)) == BREAKING


def test_a_change_below_the_deepest_level_that_is_compared_is_not_taken_for_none() -> None:
    links = {f"l{index}": {"items": {"$ref": f"#/$defs/l{index + 1}"}} for index in range(80)}
    old = {"$ref": "#/$defs/l0", "$defs": links | {"l80": TEXT}}
    new = {"$ref": "#/$defs/l0", "$defs": links | {"l80": WHOLE}}

    (difference,) = compare_input(old, new)
    assert difference.change is BREAKING
    assert "judged" in difference.message


def test_a_schema_that_would_be_refused_is_not_walked_and_counts_as_breaking() -> None:
    unsound = {"$ref": "https://example.com/x.json"}

    assert largest(compare_input(TEXT, unsound)) == BREAKING
    assert largest(compare_output(unsound, TEXT)) == BREAKING
    assert compare_input(unsound, dict(unsound)) == []


def crowded(leaf: Any) -> dict[str, Any]:
    """As many anchors, and references to each, as a schema may have."""
    anchors = {f"d{index}": {"$anchor": f"a{index}", "title": "x"} for index in range(200)}
    names = {f"p{index}": {"$ref": f"#a{index}", "title": "y"} for index in range(200)}
    return {"properties": names | {"leaf": leaf}, "$defs": anchors}


def woven(size: int) -> dict[str, Any]:
    """Each schema leads to the next two: every pair of two such rings of different sizes can meet."""
    ring = {
        f"d{index}": {
            "items": {"$ref": f"#/$defs/d{(index + 1) % size}", "title": "x"},
            "additionalProperties": {"$ref": f"#/$defs/d{(index * 2 + 1) % size}", "title": "x"},
        }
        for index in range(size)
    }
    return {"$ref": "#/$defs/d0", "$defs": ring}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (crowded(TEXT), crowded(WHOLE)),
        (woven(101), woven(103) | {"title": "x"}),
        (woven(101), {"items": {}}),
        ({"items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}}, {"type": "array"}),
    ],
)
def test_comparing_two_schemas_full_of_references_takes_few_steps(old: Any, new: Any) -> None:
    anchors_gathered = 0
    gather = traversal._collect_anchors  # pyright: ignore[reportPrivateUsage]

    def counted(root: object) -> dict[str, Any]:
        nonlocal anchors_gathered
        anchors_gathered += 1
        return gather(root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traversal, "_collect_anchors", counted)
        compared = [compare_input(old, new), compare_output(old, new)]

    # Two for the comparison itself and a few for the checks before it: never one for each reference.
    assert anchors_gathered <= 20
    assert all(len(found) < 10_000 for found in compared)


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("1.0.0", "1.0.1", NONE),
        ("1.0.0", "1.1.0", ADDITIVE),
        ("1.9.0", "2.0.0", BREAKING),
        ("0.1.0", "0.2.0", BREAKING),
        ("0.1.0", "0.1.1", NONE),
    ],
)
def test_a_version_number_says_what_a_new_version_may_change(old: str, new: str, step: CompatibilityLevel) -> None:
    assert version_step(Version.parse(old), Version.parse(new)) == step

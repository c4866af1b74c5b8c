"""Schemas from outside are bounded, and what fails them is said in words."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from fixtures.all_cases import all_cases
from paddock.core.errors import Invalid, Problem
from paddock.core.schema import traversal
from paddock.core.schema.compile import MAX_PROBLEMS, check_schema, compile_schema, compile_trusted, join_path


def the_only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


def nested(levels: int, leaf: Any = None) -> Any:
    value: Any = {} if leaf is None else leaf
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_path_shows_indexes_names_and_odd_keys() -> None:
    assert join_path(["items", 2, "name", "a b", "x-y"]) == 'items[2].name["a b"].x-y'
    assert join_path([0, "a"]) == "[0].a"
    assert "\x1b" not in join_path(["\x1b[31m"])


@all_cases(
    ("schema", "value", "path", "message", "hint"),
    [
        ({"required": ["name"]}, {}, "name", "missing field 'name'", ""),
        (
            {"properties": {"capabilities": {}}, "additionalProperties": False},
            {"capabilites": []},
            "capabilites",
            "unknown field 'capabilites'",
            "did you mean 'capabilities'?",
        ),
        ({"properties": {"t": {"enum": ["a", "b"]}}}, {"t": "zzz"}, "t", "not one of the allowed", "allowed: a, b"),
        ({"type": "string"}, 3, "", "expected string, found integer", "put it in quotes"),
        ({"type": ["string", "null"]}, True, "", "expected null or string, found boolean", "put it in quotes"),
        ({"pattern": "^a$"}, "b", "", '"b" does not match the pattern ^a$', ""),
        ({"minimum": 3}, 2, "", "2 is less than 3", "use 3 or more"),
        ({"maxLength": 2}, "abc", "", "too long: 3 characters", "at most 2"),
        ({"minLength": 1}, "", "", "must not be empty", ""),
        ({"maxItems": 1}, [1, 2], "", "too many items: 2", "at most 1"),
        ({"uniqueItems": True}, [1, 1], "", "twice", "different"),
        ({"format": "email"}, "nobody", "", '"nobody" is not a valid email', "name@example.com"),
        ({"const": 1}, 2, "", "expected 1, found 2", ""),
        ({"properties": {"x": False}}, {"x": 1}, "x", "field 'x' is not allowed here", ""),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, {"B": 1}, "B", "field name 'B' is not allowed", ""),
        ({"items": {"properties": {"n": {"type": "integer"}}}}, [{}, {"n": "x"}], "[1].n", "expected integer", ""),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, 1, "", "expected string or array, found integer", ""),
        (
            {"oneOf": [{"type": "string"}, {"type": "object", "required": ["url"]}]},
            {},
            "url",
            "missing field 'url'",
            "",
        ),
    ],
)
def test_a_mistake_is_said_in_plain_words(schema: Any, value: Any, path: str, message: str, hint: str) -> None:
    problem = the_only(compile_schema(schema).errors(value))
    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


def test_a_tagged_union_reports_the_form_that_was_meant() -> None:
    schema = {
        "oneOf": [
            {"properties": {"type": {"const": "a"}, "n": {"type": "integer"}}, "required": ["type", "n"]},
            {"properties": {"type": {"const": "b"}, "s": {"type": "string"}}, "required": ["type", "s"]},
        ]
    }
    assert the_only(compile_schema(schema).errors({"type": "b"})).path == "s"


def test_all_mistakes_are_reported_at_once_but_never_more_than_fifty() -> None:
    compiled = compile_schema({"items": {"type": "string"}})
    assert [p.path for p in compiled.errors([1, "x", 2])] == ["[0]", "[2]"]
    assert len(compiled.errors(list(range(500)))) == MAX_PROBLEMS


def test_a_schema_can_bring_its_own_words() -> None:
    compiled = compile_trusted(
        {
            "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$", "x-message": "not a name", "x-hint": "a–z"}},
            "properties": {
                "name": {"$ref": "#/$defs/name"},
                "inner": {"x-message": "bad inner", "x-hint": "see docs", "properties": {"n": {"type": "null"}}},
            },
        }
    )
    name = the_only(compiled.errors({"name": "A"}))
    assert (name.message, name.hint) == ("not a name", "a–z")
    inner = the_only(compiled.errors({"inner": {"n": 1}}))
    assert (inner.message, inner.hint) == ("expected null, found integer", "see docs")


def test_a_huge_or_dirty_value_is_never_dumped_into_a_message() -> None:
    for value in ("\x1b[31m" + "x" * 1_000_000, {"k" * 5000: "v"}, [1] * 5000, 10**4000):
        for schema in ({"enum": ["a"]}, {"const": 1}, {"not": {}}, {"additionalProperties": False}, {"type": "null"}):
            for problem in compile_schema(schema).errors(value):
                assert len(problem.message) <= 300
                assert len(problem.path) <= 500
                assert (problem.message + problem.path + problem.hint).isprintable()


def test_values_that_are_not_json_are_named_with_their_place() -> None:
    compiled = compile_schema({"properties": {"when": {"type": "string", "maxLength": 10}}})
    assert "date" in the_only(compiled.errors({"when": date(2026, 1, 1)})).message
    assert not compiled.is_valid({1: 2})
    assert "'1'" in the_only(compiled.errors({1: 2})).message


def test_a_value_nested_too_deep_is_refused_without_recursion() -> None:
    compiled = compile_schema({"properties": {"a": {"$ref": "#"}}})
    assert compiled.is_valid(nested(63))
    assert not compiled.is_valid(nested(100_000))
    assert the_only(compiled.errors(nested(100_000))).code == "too_deep"


def test_listing_mistakes_stays_cheap_where_the_engine_would_explode() -> None:
    branch = {"properties": {"a": {"$ref": "#"}}}
    compiled = compile_schema({"type": "object", "allOf": [branch, dict(branch)]})
    assert compiled.is_valid(nested(60))
    assert the_only(compiled.errors(nested(60, leaf=1))).code == "too_large"
    assert compiled.errors(nested(3, leaf=1))[0].path == "a.a.a"


@all_cases(
    ("schema", "path", "message"),
    [
        ([], "s", "object or true/false"),
        ({"properties": {"x": {"type": "strng"}}}, "s.properties.x.type", '"strng" is not one of the allowed values'),
        ({"$defs": {"a": {"minLength": -1}}}, "s.$defs.a.minLength", "less than 0"),
        ({"$ref": "https://example.com/x.json"}, "s.$ref", "remote references are refused"),
        ({"$ref": "file:///etc/passwd"}, "s.$ref", "remote references are refused"),
        ({"items": {"$dynamicRef": "other.json#x"}}, "s.items.$dynamicRef", "remote references are refused"),
        ({"$ref": "#/$defs/none"}, "s.$ref", "points at nothing"),
        ({"$ref": "#nowhere"}, "s.$ref", "points at nothing"),
        ({"$ref": "#"}, "s", "leads back to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "s", "leads back to itself"),
        ({"pattern": "("}, "s.pattern", "not a valid regular expression"),
        ({"$defs": {"a": {"pattern": "("}}}, "s.$defs.a.pattern", "not a valid regular expression"),
        ({"x-hidden": {"pattern": "("}, "$ref": "#/x-hidden"}, "s.$ref.pattern", "not a valid regular expression"),
        ({"patternProperties": {"(?!x)": {}}}, 's.patternProperties["(?!x)"]', "look-around"),
        ({"pattern": "(a)\\1"}, "s.pattern", "back-references"),
        ({"pattern": "((a{500}){500}){500}"}, "s.pattern", "too much memory"),
        ({"pattern": "a" * 3000}, "s.pattern", "longer than"),
        ({"$schema": "https://example.com/mine"}, "s.$schema", "unknown JSON Schema draft"),
        ({"enum": ["x"] * 20_000}, "s", "holds more than"),
        ({"description": "x" * 600_000}, "s", "characters"),
        ({"default": float("nan")}, "s.default", "not a number that JSON knows"),
        ({"properties": {f"p{i}": {} for i in range(501)}}, "s", "more than 500 subschemas"),
    ],
)
def test_a_bad_schema_is_refused_with_the_place_and_the_reason(schema: Any, path: str, message: str) -> None:
    problem = check_schema(schema, "s")[0]
    assert problem.path == path
    assert message in problem.message
    with pytest.raises(Invalid):
        compile_schema(schema)


def test_schemas_nest_sixteen_levels_and_no_more() -> None:
    def tower(levels: int) -> dict[str, Any]:
        return {"items": tower(levels - 1)} if levels else {"type": "string"}

    assert check_schema(tower(16)) == []
    assert "16 levels" in the_only(check_schema(tower(17))).message


def test_references_that_double_at_every_step_are_refused() -> None:
    same: dict[str, Any] = {"$defs": {}, "$ref": "#/$defs/d0"}
    parts: dict[str, Any] = {"$defs": {}, "$ref": "#/$defs/d0"}
    for i in range(40):
        step = {"$ref": f"#/$defs/d{i + 1}"}
        same["$defs"][f"d{i}"] = {"allOf": [step, dict(step)]}
        parts["$defs"][f"d{i}"] = {"properties": {"a": step}, "allOf": [{"properties": {"a": dict(step)}}]}
    same["$defs"]["d40"] = parts["$defs"]["d40"] = {}
    assert the_only(check_schema(same)).code == "schema.too_complex"
    assert the_only(check_schema(parts)).code == "schema.too_complex"


def test_anchors_cost_no_more_than_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each resource is walked once for its anchors; once for every reference would take minutes."""
    walks: list[object] = []
    gather = traversal._collect_anchors  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(traversal, "_collect_anchors", lambda root: walks.append(root) or gather(root))
    tower: dict[str, Any] = {"$ref": "#t0", "$defs": {f"e{i}": {} for i in range(430)}}
    for i in range(15):
        step = {"$ref": f"#t{i + 1}"}
        tower["$defs"][f"d{i}"] = {"$anchor": f"t{i}", "allOf": [step, dict(step)]}
    tower["$defs"]["d15"] = {"$anchor": "t15"}
    assert the_only(check_schema(tower)).code == "schema.too_complex"
    assert len(walks) == 1

    tree = compile_schema({"$anchor": "n", "properties": {"a": {"$ref": "#n"}, "b": {"$ref": "#n"}}})
    walks.clear()
    assert tree.errors(nested(20)) == []
    assert len(walks) <= 1


def test_thousands_of_patterns_are_refused_before_any_is_compiled() -> None:
    many = {"patternProperties": {f"[\\p{{L}}]{{5}}{number}": True for number in range(9_000)}}
    assert "200 regular expressions" in the_only(check_schema(many)).message


def test_ordinary_recursive_schemas_are_welcome() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    anchored = {"$ref": "#node", "$defs": {"n": {"$anchor": "node", "items": {"$ref": "#node"}}}}
    assert check_schema(tree) == []
    assert check_schema(anchored) == []
    assert check_schema({"$id": "https://example.com/s", "$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}) == []


@pytest.mark.parametrize(
    ("draft", "schema", "good", "bad"),
    [
        ("http://json-schema.org/draft-04/schema#", {"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ("http://json-schema.org/draft-06/schema#", {"exclusiveMinimum": 1}, 2, 1),
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "null"}]}, [None], [1]),
        ("https://json-schema.org/draft/2019-09/schema", {"dependentRequired": {"a": ["b"]}}, {}, {"a": 1}),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "null"}]}, [None], [1]),
    ],
)
def test_every_draft_is_honoured(draft: str, schema: dict[str, Any], good: Any, bad: Any) -> None:
    compiled = compile_schema({"$schema": draft, **schema})
    assert compiled.is_valid(good)
    assert not compiled.is_valid(bad)
    assert compiled.errors(bad)


def test_an_expression_that_would_backtrack_for_ever_answers() -> None:
    # With a backtracking engine each of these would outlive the test run; returning at all is the proof.
    for pattern in ("^(a+)+$", "^(a|aa)+$", "^(.*a){12}$"):
        assert not compile_schema({"pattern": pattern}).is_valid("a" * 50_000 + "!"[: pattern != "^(.*a){12}$"] + "\n!")


def test_a_schema_nested_until_a_stack_would_break_is_refused() -> None:
    assert the_only(check_schema(nested(100_000))).code == "too_deep"
    circular: dict[str, Any] = {}
    circular["not"] = circular
    assert check_schema(circular)


def test_many_costly_patterns_share_one_allowance_and_are_refused_as_problems() -> None:
    costly = {"pattern": ".{0,5000}"}
    assert check_schema(costly) == []
    many = {"properties": {f"p{i}": {"pattern": f".{{0,5000}}{i}"} for i in range(100)}}
    same = {"properties": {f"p{i}": dict(costly) for i in range(100)}}
    for schema in (many, same):
        assert check_schema(schema)
        with pytest.raises(Invalid):
            compile_schema(schema)

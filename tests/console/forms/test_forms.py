"""A schema becomes a form, and what is filled in becomes a value: hints, shapes, mistakes and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.all_cases import all_cases
from paddock.console.forms.controls import MAX_CONTROLS, MAX_DEPTH, FormControl, build_control
from paddock.console.forms.fields import FormField, UnparsedText, build_form, walk_fields
from paddock.console.forms.hints import parse_ui_hints
from paddock.console.forms.input_edits import FIELDS_MARK, read_edits
from paddock.console.forms.parse import (
    ADD_ROW_FIELD,
    RAW_JSON_FIELD,
    REMOVE_ROW_FIELD,
    FormFile,
    apply_row_edits,
    parse_fields,
    parse_form,
)
from paddock.core.errors import Problem
from paddock.core.schema.compile import compile_schema
from paddock.web.routing.json_parser import MAX_INTEGER, MIN_INTEGER


def of(**properties: Any) -> FormControl:
    return build_control({"type": "object", "properties": properties})


def field(shape: FormControl, name: str, value: Any = None, problems: tuple[Problem, ...] = ()) -> FormField:
    return next(one for one in walk_fields(build_form(shape, value, problems).root) if one.name == name)


def sent(shape: FormControl, **given: Any) -> Any:
    """What comes of a form with these in it; names without the first slash."""
    pairs = {f"/{name}": [value] if isinstance(value, str) else value for name, value in given.items()}
    read = parse_fields(shape, pairs)
    assert read.problems == ()
    return read.value


OP = {"type": "string", "enum": ["ingest", "digest"], "default": "digest"}


@pytest.mark.req("S-27", "hidden")
def test_a_hidden_field_has_no_control_and_what_is_sent_for_it_does_not_count() -> None:
    shape = of(user={"type": "string", "x-ui": {"hidden": True}}, text={"type": "string"})

    assert not field(shape, "/user").shown
    assert sent(shape, user="mallory", text="hello") == {"text": "hello"}


@pytest.mark.req("S-27", "help")
def test_help_stands_under_its_field_and_a_description_does_where_there_is_none() -> None:
    shape = of(a={"type": "string", "x-ui": {"help": "In hours"}}, b={"type": "string", "description": "A filter"})

    assert [field(shape, name).shape.hints.help for name in ("/a", "/b")] == ["In hours", "A filter"]


@pytest.mark.req("S-27", "show_when equals")
@pytest.mark.req("S-27", "show_when in")
@pytest.mark.req("S-27", "show_when map")
@pytest.mark.parametrize(
    "condition",
    [
        {"field": "op", "equals": "ingest"},
        {"field": "op", "in": ["ingest", "other"]},
        {"op": "ingest"},
        {"op": ["ingest"], "deep": True},
    ],
)
def test_a_field_is_there_when_another_says_so_and_left_out_when_it_does_not(condition: dict[str, Any]) -> None:
    shape = of(
        op=OP, deep={"type": "boolean", "default": True}, kb={"type": "string", "x-ui": {"show_when": condition}}
    )

    assert not field(shape, "/kb").shown, "the default of op is digest"
    assert field(shape, "/kb", {"op": "ingest"}).shown
    assert sent(shape, op="ingest", kb="notes", **{"deep": "true", "deep!": "1"})["kb"] == "notes"
    assert "kb" not in sent(shape, op="digest", kb="notes", **{"deep": "true", "deep!": "1"})


def test_a_field_that_is_shown_for_a_field_that_is_not_is_not_either() -> None:
    shape = of(
        a={"type": "boolean", "default": False},
        b={"type": "string", "x-ui": {"show_when": {"a": True}}},
        c={"type": "string", "x-ui": {"show_when": {"b": "x"}}},
    )

    assert sent(shape, **{"a!": "1", "b": "x", "c": "y"}) == {"a": False}


@pytest.mark.req("S-27", "enum_labels")
@pytest.mark.req("S-27", "enum_help")
def test_values_have_labels_and_help() -> None:
    hints = {"enum_labels": {"ingest": "Ingest all"}, "enum_help": {"digest": "One summary"}}
    options = field(of(op=OP | {"x-ui": hints}), "/op").shape.options

    assert [(one.text, one.label, one.help) for one in options] == [
        ("ingest", "Ingest all", ""),
        ("digest", "digest", "One summary"),
    ]


@pytest.mark.req("S-27", "placeholder")
def test_nothing_chosen_is_null_where_null_will_do_and_the_placeholder_names_it() -> None:
    style = {"type": ["string", "null"], "enum": ["short", "long", None], "x-ui": {"placeholder": "As it likes"}}
    shape = of(style=style)

    assert field(shape, "/style").shape.hints.placeholder == "As it likes"
    assert sent(shape, style="") == {"style": None}
    assert sent(shape, style="long") == {"style": "long"}


@pytest.mark.req("S-27", "both spellings")
@pytest.mark.parametrize(
    "spelled",
    [
        {"x-ui": {"help": "H", "hidden": True}},
        {"x_ui": {"help": "H", "hidden": True}},
        {"x-ui.help": "H", "x-ui.hidden": True},
        {"x_ui.help": "H", "x_ui.hidden": True},
    ],
)
def test_hints_are_read_in_every_spelling(spelled: dict[str, Any]) -> None:
    assert (parse_ui_hints(spelled).help, parse_ui_hints(spelled).hidden) == ("H", True)


@pytest.mark.parametrize(
    "nonsense", [None, 1, "x", [], {"show_when": 1, "enum_labels": [], "help": {}, "hidden": "no"}]
)
def test_hints_that_are_none_are_no_matter(nonsense: Any) -> None:
    assert parse_ui_hints({"x-ui": nonsense}) == parse_ui_hints({})


@all_cases(
    ("schema", "control"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "maxLength": 4000}, "long_text"),
        ({"type": "string", "format": "password"}, "secret"),
        ({"type": "string", "writeOnly": True}, "secret"),
        ({"type": "string", "contentEncoding": "base64"}, "file"),
        ({"type": "integer"}, "number"),
        ({"type": "number", "minimum": 0, "maximum": 1, "x-ui": {"widget": "range"}}, "range"),
        ({"type": "boolean"}, "toggle"),
        ({"enum": [1, 2, 3]}, "choice"),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "choice"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "either"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "checks"),
        ({"type": "array", "items": {"type": "string"}}, "lines"),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}, "rows"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "group"),
        ({"type": "object"}, "json"),
        ({"$ref": "#/$defs/nothing"}, "json"),
        ({"$ref": "https://elsewhere.example/schema"}, "json"),
        ({}, "json"),
        (True, "json"),
        ({"type": ["string", "integer"]}, "json"),
    ],
)
def test_each_schema_has_its_control_and_json_is_what_is_left(schema: Any, control: str) -> None:
    assert field(of(it=schema), "/it").shape.control == control


def test_objects_in_lists_and_in_objects_come_back_as_they_were_filled_in() -> None:
    person = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    shape = of(team={"type": "array", "items": person}, lead=person)

    # The second row was taken out in the page.
    rows = {"team#": ["0", "2"], "team/0/name": "Ann", "team/0/age": "41", "team/2/name": "Bob", "lead/name": "Cy"}
    assert sent(shape, **rows) == {"team": [{"name": "Ann", "age": 41}, {"name": "Bob"}], "lead": {"name": "Cy"}}


def test_what_is_wrong_with_a_row_is_told_where_the_row_will_stand() -> None:
    shape = of(team={"type": "array", "items": {"type": "object", "properties": {"age": {"type": "integer"}}}})

    read = parse_fields(shape, {"/team#": ["0", "7"], "/team/0/age": ["41"], "/team/7/age": ["old"]})

    assert [one.path for one in read.problems] == ["team[1].age"]


def test_which_of_several_shapes_is_meant_is_said_with_it() -> None:
    text, number = {"type": "string"}, {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    shape = of(it={"oneOf": [text, number]})

    assert sent(shape, **{"it?": "0", "it": "hello"}) == {"it": "hello"}
    assert sent(shape, **{"it?": "1", "it/n": "3"}) == {"it": {"n": 3}}
    assert field(shape, "/it", {"it": {"n": 3}}).chosen == 1


def test_a_file_becomes_text_and_none_is_left_out() -> None:
    shape = of(a={"type": "string", "contentEncoding": "base64"}, b={"type": "string", "format": "data-url"})
    file = FormFile("x.txt", "text/plain", b"hello")

    assert parse_fields(shape, {}, {"/a": file, "/b": file}).value == {
        "a": "aGVsbG8=",
        "b": "data:text/plain;base64,aGVsbG8=",
    }
    assert parse_fields(shape, {}).value == {}


def test_everything_that_cannot_be_read_is_told_at_once_with_its_path() -> None:
    shape = of(n={"type": "number"}, deep={"type": "object"}, list={"type": "array", "items": {"type": "integer"}})

    read = parse_fields(shape, {"/n": ["many"], "/deep": ["{"], "/list": ["1\ntwo\n3"]})

    assert [one.path for one in read.problems] == ["n", "deep", "list[1]"]


def test_problems_stand_at_their_fields_and_the_rest_above_the_form() -> None:
    shape = of(tags={"type": "array", "items": {"type": "string"}}, **{"odd name/~": {"type": "string"}})
    problems = (
        Problem("tags[1]", "too short"),
        Problem('["odd name/~"]', "missing"),
        Problem("stray", "unknown field"),
    )
    form = build_form(shape, {}, problems)

    assert [one.message for one in field(shape, "/tags", {}, problems).problems] == ["too short"]
    assert [one.message for one in field(shape, "/odd name~1~0", {}, problems).problems] == ["missing"]
    assert [one.path for one in form.elsewhere] == ["stray"]
    assert form.wrong == 3


def test_a_schema_that_never_ends_makes_a_form_that_does() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {f"n{i}": {"$ref": "#/$defs/node"} for i in range(50)}}

    form = build_form(build_control({"$ref": "#/$defs/node", "$defs": {"node": node}}))

    assert sum(1 for _ in walk_fields(form.root)) <= MAX_CONTROLS + (MAX_DEPTH + 1) * 50


VALUES = st.fixed_dictionaries(
    {"name": st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1)},
    optional={
        "count": st.integers(-(2**53), 2**53),
        "share": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "on": st.booleans(),
        "kind": st.sampled_from(["a", "b"]),
        "many": st.lists(st.sampled_from(["x", "y", "z"]), unique=True, min_size=1).map(sorted),
        "lines": st.lists(st.text("abc ", min_size=1).filter(str.strip), min_size=1),
        "rows": st.lists(st.fixed_dictionaries({"n": st.integers(0, 9)}), min_size=1, max_size=3),
        "either": st.one_of(st.integers(0, 9), st.fixed_dictionaries({"t": st.text("abc", min_size=1)})),
        "any": st.dictionaries(st.text("ab", min_size=1), st.integers(MIN_INTEGER, MAX_INTEGER), min_size=1),
    },
)
SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "on": {"type": "boolean"},
        "kind": {"enum": ["a", "b"]},
        "many": {"type": "array", "items": {"enum": ["x", "y", "z"]}},
        "lines": {"type": "array", "items": {"type": "string"}},
        "rows": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
        "either": {
            "oneOf": [
                {"type": "integer"},
                {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]},
            ]
        },
        "any": {"type": "object"},
    },
}


def as_a_browser_sends(one: FormField) -> dict[str, list[str]]:
    """What a page with this form in it sends when nobody touches anything."""
    pairs: dict[str, list[str]] = {}
    control = one.shape.control
    if control in ("group", "rows", "either"):
        if control == "rows":
            pairs[f"{one.name}#"] = [row.name.rpartition("/")[2] for row in one.fields]
        if control == "either":
            pairs[f"{one.name}?"] = [str(one.chosen)]
        for inner in one.fields:
            pairs |= as_a_browser_sends(inner)
    elif control == "checks":
        pairs[one.name] = sorted(one.chosen_texts)
    elif control == "choice":
        pairs[one.name] = sorted(one.chosen_texts) or [""]
    elif control == "toggle":
        pairs[one.name] = ["" if one.value is None else str(one.value).lower()]
    elif control != "file":
        pairs[one.name] = [one.text]
    return pairs


@given(VALUES)
def test_a_form_that_nobody_touches_gives_back_what_was_in_it(value: dict[str, Any]) -> None:
    assert compile_schema(SCHEMA).is_valid(value)
    shape = build_control(SCHEMA)

    read = parse_fields(shape, as_a_browser_sends(build_form(shape, value).root))

    assert (read.value, read.problems) == (value, ())


def test_a_field_that_a_person_clears_is_not_approved_as_it_was() -> None:
    text, number = {"type": "string"}, {"type": "integer"}
    schema = {"type": "object", "properties": {"to": text, "copy": text, "days": number}, "required": ["to"]}
    params = {"to": "bob", "copy": "eve", "days": 3}

    def edited(**sent: str) -> Any:
        return read_edits(schema, params, {FIELDS_MARK: ["1"]} | {f"/{name}": [text] for name, text in sent.items()})

    assert edited(to="bob", copy="eve", days="3").value is None
    assert edited(to="bob", copy="", days="").value == {"to": "bob"}
    assert edited(to="zoe", copy="eve", days="3").value == params | {"to": "zoe"}


def test_a_mistake_of_all_together_is_told_above_the_form() -> None:
    wrong = Problem("", "does not fit", "", "anyOf")

    form = build_form(of(a={"type": "string"}), {}, [wrong])

    assert (form.elsewhere, form.wrong) == ((wrong,), 1)


@pytest.mark.parametrize(
    ("place", "sent"),
    [
        pytest.param("/rows#", {"/rows#": ["²"], "/rows/²/n": ["1"]}, id="a row"),
        pytest.param("/either?", {"/either?": ["²"], "/either": ["x"]}, id="one of several shapes"),
    ],
)
def test_a_number_that_is_none_names_no_place(place: str, sent: dict[str, list[str]]) -> None:
    shape = of(
        rows={"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        either={"anyOf": [{"type": "string"}, {"type": "integer"}]},
    )

    assert parse_fields(shape, sent).value == ({} if place == "/rows#" else {"either": "x"})


@pytest.mark.parametrize("row", ["²", "9" * 5_000, "-1", "01"])
def test_a_row_that_is_not_there_is_neither_taken_out_nor_filled(row: str) -> None:
    assert apply_row_edits({"rows": [{"n": 1}]}, {REMOVE_ROW_FIELD: [f"/rows/{row}"]}) == {"rows": [{"n": 1}]}
    assert apply_row_edits({"rows": [{"n": 1}]}, {ADD_ROW_FIELD: [f"/rows/{row}/inner"]}) == {"rows": [{"n": 1}]}


NO_VALUES = {
    "half a character": '"\\ud800"',
    "more than any number": "1e999",
    "more than 64 bits": "9" * 25,
    "deeper than anybody goes": "[" * 900 + "]" * 900,
    "no number": "NaN",
}


@pytest.mark.parametrize("text", NO_VALUES.values(), ids=list(NO_VALUES))
def test_json_that_no_plugin_could_be_sent_is_refused_where_it_was_typed(text: str) -> None:
    read = parse_fields(of(any={}), {"/any": [text]})
    _, whole = parse_form(of(any={}), {RAW_JSON_FIELD: [f'{{"any": {text}}}']})

    assert (read.value, [one.path for one in read.problems]) == ({"any": UnparsedText(text)}, ["any"])
    assert build_form(of(any={}), read.value).fields[0].text == text, "to be mended there"
    assert [one.path for one in whole] == [""]


@pytest.mark.parametrize("text", ["[1]", '"x"', "null"])
def test_all_of_a_form_as_json_is_an_object(text: str) -> None:
    value, problems = parse_form(of(any={}), {RAW_JSON_FIELD: [text]})

    assert (value, [one.code for one in problems]) == ({}, ["wrong_type"])


@pytest.mark.parametrize("text", ["1e999", "18446744073709551616", "-9223372036854775809"])
def test_a_number_that_fits_nowhere_is_told_at_its_field(text: str) -> None:
    read = parse_fields(of(n={"type": "number"}), {"/n": [text]})

    assert [(one.path, one.code) for one in read.problems] == [("n", "number_too_big")]

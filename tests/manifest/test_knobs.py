"""Knobs: eight types, each good and bad, and the rules that tie them to the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import kaged, sound, the_only_error, warned

from fixtures.all_cases import all_cases
from paddock.core.schema.compile import compile_schema
from paddock.manifest.read import ManifestResult
from paddock.manifest.rules.knobs import value_schema

FIELDS: dict[str, Any] = {
    "number": {"type": "number"},
    "whole": {"type": "integer"},
    "choice": {"type": "string", "enum": ["low", "high"]},
    "flag": {"type": "boolean"},
    "words": {"type": "string"},
    "model": {"type": ["string", "null"]},
}

GOOD: dict[str, dict[str, Any]] = {
    "range": {"min": 0, "max": 1.5, "step": 0.1, "default": 0.5, "binds_to": "config.number"},
    "int_range": {"min": 1, "max": 20, "step": 1, "default": 3, "binds_to": "config.whole"},
    "enum": {"values": ["low", "high"], "labels": {"low": "Low"}, "default": "low", "binds_to": "config.choice"},
    "boolean": {"default": True, "binds_to": "config.flag"},
    "text": {"default": "abc", "max_length": 5, "pattern": "^[a-z]*$", "binds_to": "config.words"},
    "multiline": {"default": "a\nb", "max_length": 100, "binds_to": "config.words"},
    "model_alias": {"default": None, "filter": "reasoning", "binds_to": "config.model"},
    "path": {"default": "config:/x", "prefixes": ["config:"], "must_exist": True, "binds_to": "config.words"},
}


def with_knob(kind: str, *, name: str = "it", drop: str = "", **changes: Any) -> ManifestResult:
    knob = {"type": kind, "label": "A label"} | GOOD.get(kind, GOOD["text"]) | changes
    knob.pop(drop, None)
    system = {"type": "object", "properties": {"token": {"type": "string"}}}
    return kaged(
        config_schema={"type": "object", "properties": FIELDS}, system_config_schema=system, knobs={name: knob}
    )


@pytest.mark.req("G-14", "manifest schema")
@pytest.mark.parametrize("kind", GOOD)
def test_a_knob_of_each_type_loads_and_its_default_is_a_value_it_accepts(kind: str) -> None:
    reading = with_knob(kind)
    (knob,) = sound(reading).knobs

    assert warned(reading) == []
    assert (knob.name, knob.type, knob.label, knob.binds_to) == ("it", kind, "A label", GOOD[kind]["binds_to"])
    assert compile_schema(value_schema(knob)).is_valid(GOOD[kind]["default"])


@pytest.mark.req("G-16", "knob fields")
@all_cases(
    ("kind", "changes", "path"),
    [
        ("range", {"min": 2}, "min"),
        ("range", {"step": 0}, "step"),
        ("range", {"step": 9}, "step"),
        ("range", {"default": 7}, "default"),
        ("range", {"default": "0.5"}, "default"),
        ("range", {"min": "0"}, "min"),
        ("range", {"max": [1]}, "max"),
        ("range", {"values": ["x"]}, "values"),
        ("int_range", {"min": 0.5}, "min"),
        ("int_range", {"step": 0.5}, "step"),
        ("int_range", {"default": 2.5}, "default"),
        ("int_range", {"default": 21}, "default"),
        ("enum", {"values": []}, "values"),
        ("enum", {"values": [1, 2]}, "values[0]"),
        ("enum", {"values": "low"}, "values"),
        ("enum", {"values": ["low", "low"]}, "values"),
        ("enum", {"default": "mid"}, "default"),
        ("enum", {"labels": {"mid": "Mid"}}, "labels.mid"),
        ("enum", {"labels": ["Mid"]}, "labels"),
        ("boolean", {"default": "yes"}, "default"),
        ("boolean", {"min": 1}, "min"),
        ("text", {"default": "abcdef"}, "default"),
        ("text", {"default": "ABC"}, "default"),
        ("text", {"max_length": 0}, "max_length"),
        ("text", {"max_length": "5"}, "max_length"),
        ("text", {"pattern": "["}, "pattern"),
        ("text", {"pattern": 5}, "pattern"),
        ("multiline", {"default": None}, "default"),
        ("multiline", {"pattern": "x"}, "pattern"),
        ("model_alias", {"filter": "cheap"}, "filter"),
        ("model_alias", {"default": 5}, "default"),
        ("path", {"default": "/etc/passwd"}, "default"),
        ("path", {"default": "project:/x"}, "default"),
        ("path", {"default": "config:/../x"}, "default"),
        ("path", {"prefixes": []}, "prefixes"),
        ("path", {"prefixes": ["home:"]}, "prefixes[0]"),
        ("path", {"prefixes": [5]}, "prefixes[0]"),
        ("path", {"must_exist": "yes"}, "must_exist"),
    ],
)
def test_a_knob_whose_fields_do_not_fit_its_type_is_refused(kind: str, changes: dict[str, Any], path: str) -> None:
    reading = with_knob(kind, **changes)

    assert f"knobs.it.{path}" in [error.path for error in reading.errors], [str(error) for error in reading.errors]


@pytest.mark.req("G-16", "knob fields")
@all_cases(
    ("kind", "field"),
    [(kind, field) for kind, knob in GOOD.items() for field in ("type", "label", "binds_to", "default") if knob]
    + [("range", "min"), ("range", "max"), ("range", "step"), ("enum", "values"), ("path", "prefixes")],
)
def test_a_knob_that_lacks_what_it_needs_is_told_so_once(kind: str, field: str) -> None:
    assert the_only_error(with_knob(kind, drop=field)).path == f"knobs.it.{field}"


@pytest.mark.req("G-16", "knob fields")
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"label": "x" * 65}, "knobs.it.label"),
        ({"label": ""}, "knobs.it.label"),
        ({"description": "x" * 281}, "knobs.it.description"),
        ({"type": "dial"}, "knobs.it.type"),
    ],
)
def test_labels_and_descriptions_are_short_and_types_are_known(changes: dict[str, Any], path: str) -> None:
    assert path in [error.path for error in with_knob("text", **changes).errors]


@pytest.mark.req("G-16", "knob fields")
@pytest.mark.parametrize("name", ["It", "it-is", "1it", "it\n", "a" * 65])
def test_a_knob_is_named_in_lowercase(name: str) -> None:
    assert the_only_error(with_knob("text", name=name)).code == "knob_name"


@pytest.mark.req("G-16", "knob binding")
@pytest.mark.parametrize("target", ["system_config.token", "system.token", "config.token"])
def test_a_knob_on_a_secret_is_refused_because_it_would_write_it_into_the_project(target: str) -> None:
    error = the_only_error(with_knob("text", binds_to=target))

    assert (error.path, error.code) == ("knobs.it.binds_to", "knob_binds_to_system_config")


@pytest.mark.req("G-14", "manifest schema")
@pytest.mark.req("G-16", "knob binding")
@pytest.mark.parametrize(
    "target", ["words", "config.", "config.nothing", "config.words.inner", "config.words\n", "x.y"]
)
def test_a_knob_binds_to_one_field_that_exists(target: str) -> None:
    error = the_only_error(with_knob("text", binds_to=target))

    assert (error.path, error.code) == ("knobs.it.binds_to", "knob_binding")


@pytest.mark.req("G-16", "knob binding")
def test_a_knob_without_any_config_has_nothing_to_bind_to() -> None:
    knob = {"type": "boolean", "label": "x", "default": True, "binds_to": "config.flag"}

    assert the_only_error(kaged(knobs={"it": knob})).code == "knob_binding"


@pytest.mark.req("G-16", "knob type agreement")
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("range", {"binds_to": "config.flag"}),
        ("boolean", {"binds_to": "config.words"}),
        ("text", {"binds_to": "config.whole"}),
        ("enum", {"binds_to": "config.words"}),
        ("enum", {"values": ["low", "mid", "high"]}),
        ("enum", {"values": ["low"]}),
    ],
)
def test_a_knob_that_disagrees_with_its_field_loads_with_a_warning(kind: str, changes: dict[str, Any]) -> None:
    reading = with_knob(kind, **changes)

    assert sound(reading).knobs
    assert warned(reading) == ["knob_type_mismatch"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("range", [0, 1.5, 0.25], [-1, 2, "1", None]),
        ("int_range", [1, 20], [0, 21, 1.5, True]),
        ("enum", ["low", "high"], ["mid", 1]),
        ("boolean", [True, False], [0, "true"]),
        ("text", ["", "abc"], ["abcdef", "A", 5]),
        ("multiline", ["a\nb", ""], ["x" * 101, None]),
        ("model_alias", ["fast", None], [5, []]),
        ("path", ["config:/a/b"], ["project:/a", "config:a", "config:/a/../b", "config:/..", "/a"]),
    ],
)
def test_the_values_a_knob_accepts_are_those_of_its_own_bounds(kind: str, good: list[Any], bad: list[Any]) -> None:
    (knob,) = sound(with_knob(kind)).knobs
    accepts = compile_schema(value_schema(knob)).is_valid

    assert all(accepts(value) for value in good)
    assert not any(accepts(value) for value in bad)

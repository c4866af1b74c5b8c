"""The Kernel examples keep the contract of their kind: the operator's envelope, the agent's proposal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.examples.places import EXAMPLES, run_inside, schema_errors

from paddock.manifest.effects import Effect
from paddock.manifest.read import read_package

EXECUTE = """
import json, sys
from email_draft.operator import execute
print(json.dumps([execute(call) for call in json.load(sys.stdin)]))
"""
PROPOSE = """
import json, sys
from switchboard.agent import propose
print(json.dumps([propose(call) for call in json.load(sys.stdin)]))
"""

PAYLOAD: dict[str, Any] = {
    "student": {"name": "Ada Okafor", "field": "soil chemistry", "highlights": ["A first paper.", "Two field seasons"]},
    "professor": {"name": "Lindqvist", "topic": "peat"},
}
CONTEXT: dict[str, Any] = {
    "student": {"profile": {"name": "Ada"}},
    "professor": {"entity": {"id": 910}},
    "documents": {"cv": {"id": "cv-1"}},
}


def envelope(payload: Any, **changes: Any) -> dict[str, Any]:
    return {
        "payload": payload,
        "idempotency_key": "k1",
        "auth_context": {"tenant_id": 1, "principal_id": 88, "scopes": ["email:generate"]},
        "trace_context": {"workflow_id": "w", "step_id": "s3", "correlation_id": "c"},
        **changes,
    }


def execute(*calls: dict[str, Any]) -> list[Any]:
    return run_inside("kernel-email-draft", EXECUTE, value=calls)


def propose(intent: str, context: dict[str, Any], **more: Any) -> Any:
    call = {"intent": {"intent_type": intent}, "context": context, **more}
    (answer,) = run_inside("kernel-switchboard", PROPOSE, value=[call])
    schema = json.loads((EXAMPLES / "kernel-switchboard/schemas/agent_output.v1.json").read_text())
    assert schema_errors(schema, answer) == []
    return answer


def find(context: Any, path: str) -> Any:
    for key in path.split("."):
        context = context.get(key, {})
    return context


def test_the_operator_answers_in_its_envelope_and_by_its_schema() -> None:
    schemas = EXAMPLES / "kernel-email-draft/schemas"
    assert schema_errors(json.loads((schemas / "email_generate_input.v1.json").read_text()), PAYLOAD) == []
    output = json.loads((schemas / "email_generate_output.v1.json").read_text())
    medium = {**PAYLOAD, "length": "medium", "tone": "friendly"}
    for answer in execute(envelope(PAYLOAD), envelope(medium)):
        assert set(answer) == {"status", "result", "artifacts", "metrics", "error", "nondeterminism"}
        assert (answer["status"], answer["error"]) == ("succeeded", None)
        assert schema_errors(output, answer["result"]) == []
        assert "Professor Lindqvist" in answer["result"]["body"] and "A first paper" in answer["result"]["body"]


def test_the_operator_gives_the_same_bytes_for_the_same_key_also_from_another_process() -> None:
    first, second = execute(envelope(PAYLOAD), envelope(PAYLOAD))
    (third,) = execute(envelope(PAYLOAD))
    assert json.dumps(first) == json.dumps(second) == json.dumps(third)
    assert first["nondeterminism"]["is_nondeterministic"] is False


def test_the_operator_refuses_a_caller_without_the_scope() -> None:
    unscoped, nobody = execute(envelope(PAYLOAD, auth_context={"scopes": ["email:send"]}), {"payload": PAYLOAD})
    assert unscoped["status"] == nobody["status"] == "failed"
    assert unscoped["error"]["code"] == nobody["error"]["code"] == "PERMISSION_DENIED"


def test_the_operator_names_every_mistake_of_a_payload_with_its_path() -> None:
    bad = {"student": {"name": "", "field": 4, "age": 3, "highlights": ["ok", ""]}, "length": "long"}
    answer, odd, keyless = execute(envelope(bad), envelope([]), envelope(PAYLOAD, idempotency_key=""))
    assert (answer["status"], answer["error"]["code"], answer["result"]) == ("failed", "VALIDATION_ERROR", None)
    assert {detail["path"] for detail in answer["error"]["details"]} == {
        *("student.name", "student.field", "student.age", "student.highlights[1]"),
        *("professor", "professor.name", "length"),
    }
    assert odd["error"]["code"] == keyless["error"]["code"] == "VALIDATION_ERROR"


def test_a_line_break_in_a_name_stays_inside_its_line() -> None:
    payload = {**PAYLOAD, "professor": {"name": "Lindqvist\n\nBcc: all@example.org", "topic": "peat\r\nX: y"}}
    (answer,) = execute(envelope(payload))
    assert "\n" not in answer["result"]["subject"]
    assert "Dear Professor Lindqvist Bcc: all@example.org," in answer["result"]["body"].splitlines()


def test_the_operator_declares_that_it_only_produces_an_outcome() -> None:
    (spec,) = read_package(EXAMPLES / "kernel-email-draft").single().callables
    assert spec.effects == (Effect.PRODUCE_OUTCOME,)


def test_the_agent_proposes_a_plan_that_stays_on_its_list_and_waits_where_something_changes() -> None:
    answer = propose("Funding.Outreach.Email.Generate", CONTEXT)

    assert answer["kind"] == "plan_proposal"
    allowed = read_package(EXAMPLES / "kernel-switchboard").single().allowed_actions
    steps = answer["proposed_plan"]["steps"]
    assert [step["action"] for step in steps] == ["Document.Process", "Professor.Summarize", "Email.GenerateDraft"]
    assert {step["action"] for step in steps} <= set(allowed)
    assert {action["operator"] for action in answer["required_actions"]} <= set(allowed)
    assert steps[-1]["gate"] == "human_apply"
    assert answer["required_actions"][1]["payload"] == {"professor_id": 910}


def test_every_signal_of_the_agent_can_be_found_in_what_it_was_given() -> None:
    answer = propose("Funding.Outreach.Email.Generate", CONTEXT)
    for signal in answer["rationale"]["signals"]:
        if signal.startswith("has_"):
            assert find(CONTEXT, signal.removeprefix("has_"))
        else:
            assert signal == "intent_type:Funding.Outreach.Email.Generate"


def test_every_placeholder_of_an_idempotency_hint_is_a_field_of_its_payload() -> None:
    for action in propose("Funding.Outreach.Email.Generate", CONTEXT)["required_actions"]:
        assert action["idempotency_hint"].format_map(action["payload"])


@pytest.mark.parametrize(
    ("context", "missing"),
    [
        ({}, ["student.profile", "professor.entity"]),
        ({"student": {"profile": {}}}, ["professor.entity"]),
        ({"student": "x", "professor": {"entity": {}}}, ["student.profile"]),
    ],
)
def test_the_agent_says_what_it_is_missing_and_plans_nothing(context: dict[str, Any], missing: list[str]) -> None:
    answer = propose("Funding.Outreach.Email.Generate", context)
    assert (answer["kind"], answer["error"]) == ("needs_context", {"code": "NEEDS_CONTEXT", "missing": missing})
    assert "proposed_plan" not in answer


def test_the_agent_leaves_out_what_is_not_on_offer_and_is_less_sure() -> None:
    full = propose("Funding.Outreach.Email.Generate", CONTEXT)
    less = propose("Funding.Outreach.Email.Generate", CONTEXT, tool_registry=["Email.GenerateDraft", "Gmail.Send"])
    assert [step["action"] for step in less["proposed_plan"]["steps"]] == ["Email.GenerateDraft"]
    assert less["confidence"] < full["confidence"]
    nothing = propose("Funding.Outreach.Email.Generate", CONTEXT, tool_registry=["Gmail.Send"])
    assert nothing["kind"] == "next_step_suggestions"


def test_an_unknown_intent_gets_suggestions_and_no_plan() -> None:
    assert propose("Garden.Water", CONTEXT)["kind"] == "next_step_suggestions"

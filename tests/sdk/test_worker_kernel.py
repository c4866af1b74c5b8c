"""The Kernel's plugins in the worker: one object in, the envelope of their kind out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.workers import kernel, shu

ENVELOPE = {
    "auth_context": {"tenant_id": 1, "scopes": ["email:generate"]},
    "trace_context": {"correlation_id": "c"},
    "idempotency_key": "k",
    "policy_snapshot": None,
}

SEEN = "def run(call):\n    return call"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("operator", {"status": "succeeded", "result": {**ENVELOPE, "payload": {"a": 1}}}),
        ("tool", {"result": {**ENVELOPE, "payload": {"a": 1}}}),
        ("adapter", {**ENVELOPE, "payload": {"a": 1}}),
        ("agent", {"a": 1, **{name: value for name, value in ENVELOPE.items() if value is not None}}),
    ],
)
def test_each_kind_is_given_its_call_and_a_plain_value_becomes_its_result(tmp_path: Path, kind: str, told: Any) -> None:
    with kernel(tmp_path, SEEN, kind) as plugin:
        assert plugin.call({"a": 1}, ENVELOPE) == told


def test_an_agents_payload_cannot_claim_who_is_calling(tmp_path: Path) -> None:
    claimed = {"auth_context": {"scopes": ["everything"]}, "policy_snapshot": {"p": 1}, "intent": {}}
    with kernel(tmp_path, SEEN, "agent") as plugin:
        assert plugin.call(claimed, {"trace_context": {}, "policy_snapshot": None}) == {
            "policy_snapshot": {"p": 1},
            "intent": {},
            "trace_context": {},
        }


@pytest.mark.parametrize(
    "code",
    [
        "class Thing:\n    def execute(self, call): return call['payload']",
        "class Thing:\n    def run(self, call): return call['payload']",
        "class Thing:\n    async def __call__(self, call, host): return call['payload']",
        "class Thing:\n    def map_external_event_to_intent(self, external_event): return external_event",
        "class Made:\n    def run(self, call): return call['payload']\nThing = Made()",
        "async def Thing(call, host):\n    host.logger.debug('here')\n    return call['payload']",
    ],
)
def test_an_entry_point_may_be_a_function_a_class_or_an_object(tmp_path: Path, code: str) -> None:
    with kernel(tmp_path, code, "adapter", entry="plug:Thing") as plugin:
        assert plugin.call({"a": 1}) == {"a": 1}


ENVELOPES = """
def run(call):
    return call["payload"]["answer"]
"""


NO = {"code": "X", "message": "no"}


@pytest.mark.parametrize(
    ("kind", "answer", "told"),
    [
        ("operator", {"status": "in_progress", "x": 1}, {"status": "in_progress"}),
        ("operator", {"status": "failed", "error": NO}, {"status": "failed", "error": NO}),
        ("operator", {"status": "ready"}, {"status": "succeeded", "result": {"status": "ready"}}),
        ("tool", {"result": 1, "metrics": {"latency_ms": 2}}, {"result": 1, "metrics": {"latency_ms": 2}}),
        ("tool", {"result": 1, "page": 2}, {"result": {"result": 1, "page": 2}}),
        ("tool", {"metrics": 1}, {"result": {"metrics": 1}}),
        ("tool", {"result": None, "error": NO}, {"result": None, "error": NO}),
    ],
)
def test_an_envelope_passes_and_anything_else_is_put_into_one(
    tmp_path: Path, kind: str, answer: Any, told: Any
) -> None:
    with kernel(tmp_path, ENVELOPES, kind) as plugin:
        assert plugin.call({"answer": answer}) == told


SCOPED = """
from paddock_sdk import requires_scopes
ran = []

@requires_scopes("email:generate", "email:read")
def run(call):
    ran.append(1)
    return len(ran)
"""


@pytest.mark.req("K-12", "in the SDK")
def test_a_scope_is_looked_for_once_more_before_the_operator_runs(tmp_path: Path) -> None:
    both = {"auth_context": {"scopes": ["email:generate", "email:read"]}}
    with kernel(tmp_path, SCOPED, "operator") as plugin:
        for lacking in ({}, {"auth_context": {}}, {"auth_context": {"scopes": "email:read"}}, ENVELOPE):
            answer = plugin.call({"auth_context": {"scopes": ["email:generate", "email:read"]}}, lacking)
            assert (answer["status"], answer["error"]["code"]) == ("failed", "PERMISSION_DENIED")
        assert answer["error"]["details"] == ["email:read"]
        assert plugin.call({}, both) == {"status": "succeeded", "result": 1}


def test_the_scopes_of_a_shu_plugin_are_the_permissions_in_its_context(tmp_path: Path) -> None:
    code = """
    from paddock_sdk import requires_scopes
    class Plugin:
        @requires_scopes("notes:read")
        async def execute(self, params, context, host):
            return "read"
    """
    with shu(tmp_path, code) as plugin:
        error = plugin.failure({"permissions": ["notes:read"], "user_id": "me"}, {"permissions": []})
        assert error["data"] == {"code": "PERMISSION_DENIED", "missing_scopes": ["notes:read"], "no_effect": True}
        assert plugin.call({}, {"permissions": ["notes:read"]})["data"] == "read"


READING = """
import dataclasses
from typing import Annotated, Literal
from paddock_sdk import read_payload

@dataclasses.dataclass
class Draft:
    to: Annotated[str, {"minLength": 1}]
    tone: Literal["formal", "friendly"] = "formal"
    lines: list[int] = dataclasses.field(default_factory=list)

def run(call):
    draft = read_payload(Draft, call["payload"])
    return {"to": draft.to, "sum": sum(draft.lines)}
"""


@pytest.mark.req("K-11")
@pytest.mark.parametrize("kind", ["operator", "tool"])
def test_a_payload_that_breaks_its_type_is_a_validation_error_with_every_path(tmp_path: Path, kind: str) -> None:
    with kernel(tmp_path, READING, kind) as plugin:
        error = plugin.call({"to": "", "tone": "rude", "lines": [1, "2"], "cc": "x"})["error"]
        assert error["code"] == "VALIDATION_ERROR"
        assert {one["path"] for one in error["details"]} == {"to", "tone", "lines[1]", "cc"}
        assert plugin.call({"to": "me", "lines": [1, 2]})["result"] == {"to": "me", "sum": 3}


@pytest.mark.req("K-10", "disclosure helper")
def test_an_operator_says_that_its_result_would_not_come_out_the_same_again(tmp_path: Path) -> None:
    code = """
    from paddock_sdk import disclose
    def run(call):
        return disclose(call["payload"]["answer"], "llm_sampling", stability="low")
    """
    told = {"is_nondeterministic": True, "reasons": ["llm_sampling"], "stability": "low"}
    with kernel(tmp_path, code, "operator") as plugin:
        assert plugin.call({"answer": "text"}) == {"status": "succeeded", "result": "text", "nondeterminism": told}
        failed = {"status": "failed", "error": {"code": "X", "message": "y"}}
        assert plugin.call({"answer": failed}) == {**failed, "nondeterminism": told}

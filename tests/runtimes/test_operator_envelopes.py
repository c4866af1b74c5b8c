"""Operators are called and answer in the envelopes of the Kernel's document, and the host holds them to it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, made_by
from tests.host.conftest import Home
from tests.runtime.stage import patiently
from tests.runtimes.test_python_code import kernel, opened, take

from fixtures.packages import write_json
from paddock import Host
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, StepId, WorkflowId
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import EffectKey
from paddock.gate.idempotency.states import EffectState
from paddock.ledger.read.entries import list_entries
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.plugins.dialects.operator_result import fill_artifact_hashes, operator_result_problems
from paddock.store.database import open_direct

NAME = "Our.Thing"
DIGEST = hashlib.sha256(b"a letter").hexdigest()
ADDRESS = f"artifact://sha256/{DIGEST}"
MADE: dict[str, Any] = {"type": "file", "path": "s3://bucket/letter.pdf", "hash": f"sha256:{DIGEST}"}


def operator(home: Home, folder: Path, code: str, *effects: str, **about: Any) -> None:
    package = kernel(folder / "operator", "operator", code, ("host:artifacts",))
    said = json.loads((package / "manifest.json").read_text())
    write_json(package / "manifest.json", said | {"effects": list(effects)} | about)
    take(home, package, NAME)


async def called(host: Host, params: dict[str, Any], key: str | None = None) -> Any:
    context = made_by(ANN, workflow=WorkflowId("w1"), step=StepId("s3"))
    return await patiently(host.call(NAME, params, context=context, idempotency_key=key))


def last_end(home: Home) -> dict[str, Any]:
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_entries(tx, limit=50))
    return next(dict(entry.data) | dict(entry.personal or {}) for entry in entries if entry.type == "call.ended")


@pytest.mark.req("K-07", "call")
@pytest.mark.parametrize("effect", ["read_only", "db_write"])
async def test_an_operator_gets_the_whole_call_with_what_the_rules_said_of_it(tmp_path: Path, effect: str) -> None:
    home = Home(tmp_path)
    code = "def run(call):\n    return {'status': 'succeeded', 'result': call}\n"
    operator(home, tmp_path, code, effect, scopes=["letters:write"])
    async with opened(home) as host:
        told = (await called(host, {"to": "bob"}, "k1"))["result"]
    policy = told.pop("policy_snapshot")
    assert told == {
        "payload": {"to": "bob"},
        "idempotency_key": "k1",
        "auth_context": {"tenant_id": "default", "principal_id": "local:ann", "scopes": ["letters:write"]},
        "trace_context": {"workflow_id": "w1", "step_id": "s3", "correlation_id": "req_1"},
    }
    assert (policy["decision"], policy["approval"]) == ("allow", None)
    assert policy["policies"] == ["operators-may-call"]
    assert policy["version"].startswith("pol_")


@pytest.mark.req("K-07", "succeeded")
@pytest.mark.req("K-07", "artifacts with hashes")
@pytest.mark.req("K-07", "metrics")
async def test_what_an_operator_says_of_its_work_is_on_record_with_the_hashes_of_what_it_made(tmp_path: Path) -> None:
    home = Home(tmp_path)
    code = """
def run(call, host):
    uri = host.artifacts.put(b"a letter", "text/plain").wait()
    made = [{"type": "file", "path": uri}, call["payload"]["made"]]
    told = {"is_nondeterministic": True, "reasons": ["llm_sampling"], "stability": "low"}
    return {"status": "succeeded", "result": {}, "artifacts": made, "metrics": {"tokens_in": 7}, "nondeterminism": told}
"""
    operator(home, tmp_path, code, "db_write")
    async with opened(home) as host:
        answer = await called(host, {"made": MADE})
    own = {"type": "file", "path": ADDRESS, "hash": f"sha256:{DIGEST}"}
    assert answer["artifacts"] == [own, MADE]
    recorded = last_end(home)
    assert recorded["artifacts"] == [own | {"verified": True}, MADE | {"verified": False}]
    assert recorded["plugin_metrics"] == {"tokens_in": 7}
    assert recorded["nondeterminism"]["reasons"] == ["llm_sampling"]


@pytest.mark.req("K-07", "return")
async def test_an_answer_that_is_none_is_refused_with_all_its_mistakes_and_its_effect_is_in_doubt(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    operator(home, tmp_path, "def run(call):\n    return call['payload']['answer']\n", "db_write")
    wrong = {"status": "succeeded", "artifacts": [{"type": "file", "path": "s3://x"}], "metrics": [1]}
    elsewhere = {"status": "succeeded", "artifacts": [{"type": "file", "path": ADDRESS}]}
    async with opened(home) as host:
        with pytest.raises(OutputInvalid) as mistakes:
            await called(host, {"answer": wrong}, "wrong")
        with pytest.raises(OutputInvalid) as missing:
            await called(host, {"answer": elsewhere}, "missing")
        with pytest.raises(PaddockError) as failed:
            error = {"code": "PERMISSION_DENIED", "message": "not yours"}
            await called(host, {"answer": {"status": "failed", "error": error}}, "failed")
    assert [one["path"] for one in mistakes.value.details["errors"]] == ["metrics", "artifacts[0].hash"]
    assert "keeps no artifact" in missing.value.details["errors"][0]["message"]
    assert (failed.value.error_code, failed.value.message) == ("permission_denied", "not yours")
    with open_direct(home.path / "data" / "paddock.db") as database:
        found = database.read(
            lambda tx: {
                key: records.find(tx, EffectKey(DEFAULT_TENANT, NAME, NAME, key))
                for key in ("wrong", "missing", "failed")
            }
        )
    assert [effect.state if effect else None for effect in found.values()] == [
        EffectState.IN_DOUBT,
        EffectState.IN_DOUBT,
        EffectState.FAILED_NO_EFFECT,
    ]


WRONG: dict[str, tuple[Any, list[str]]] = {
    "no object": ("done", [""]),
    "no status": ({"result": 1}, ["status"]),
    "another status": ({"status": "done"}, ["status"]),
    "words for objects": (
        {"status": "succeeded", "metrics": 1, "error": "x", "nondeterminism": True},
        ["metrics", "error", "nondeterminism"],
    ),
    "no list": ({"status": "succeeded", "artifacts": {}}, ["artifacts"]),
    "too many": ({"status": "succeeded", "artifacts": [MADE] * 257}, ["artifacts"]),
    "no artifacts": (
        {"status": "succeeded", "artifacts": ["x", {"hash": "sha256:" + "0" * 64}, {**MADE, "hash": "?"}]},
        ["artifacts[0]", "artifacts[1].type", "artifacts[1].path", "artifacts[2].hash"],
    ),
    "another hash": (
        {"status": "succeeded", "artifacts": [{"type": "f", "path": ADDRESS, "hash": "sha256:" + "0" * 64}]},
        ["artifacts[0].hash"],
    ),
    "no address": (
        {"status": "succeeded", "artifacts": [{"type": "f", "path": "artifact://x"}]},
        ["artifacts[0].path"],
    ),
    "nondeterminism": (
        {"status": "succeeded", "nondeterminism": {"reasons": "x", "stability": "none"}},
        ["nondeterminism.is_nondeterministic", "nondeterminism.reasons", "nondeterminism.stability"],
    ),
    "in progress": (
        {"status": "in_progress", "retry_after_s": -1, "error": {}, "result": "x" * 70_000},
        ["retry_after_s", "error", "result"],
    ),
}


@pytest.mark.req("K-07", "return")
@pytest.mark.parametrize("what", WRONG)
def test_every_mistake_of_an_answer_is_found_with_its_place(what: str) -> None:
    answer, places = WRONG[what]
    assert [problem.path for problem in operator_result_problems(answer)] == places


@pytest.mark.req("K-07", "return")
def test_an_answer_as_the_document_has_it_is_none_of_these() -> None:
    answer = {
        "status": "succeeded",
        "result": {"subject": "Hello"},
        "artifacts": [{"type": "s3_object", "path": "s3://bucket/file.pdf", "hash": "9f86d081884c7d65"}],
        "metrics": {"latency_ms": 912, "tokens_in": 1200, "cost_total": 0.0123, "provider": "openai"},
        "error": None,
        "nondeterminism": {"is_nondeterministic": True, "reasons": ["llm_sampling"], "stability": "high"},
    }
    assert operator_result_problems(answer) == []
    assert fill_artifact_hashes(answer) == answer
    own = {"type": "file", "path": ADDRESS}
    assert fill_artifact_hashes({"artifacts": [own]}) == {"artifacts": [own | {"hash": f"sha256:{DIGEST}"}]}

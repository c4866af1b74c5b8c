"""Operators of the Kernel's document that are programs, in whatever language: told and believed what code is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.gate.effects.in_progress.test_in_progress import ENDS, SUCCEEDED, Works, call, failure
from tests.gate.test_governed_calls import ANN

from fixtures.packages import write_file, write_json
from paddock.gate.idempotency.states import EffectState

# The same operator as a program that reads one message a line.
LINES = """
import json, sys

HELLO = {"name": "Our.Thing", "version": "1.0.0", "api_version": 1, "methods": ["execute"], "notifications": [],
         "capabilities_used": []}

for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "shutdown":
        break
    if "id" not in message:
        continue
    params = message.get("params") or {}
    answer = {"status": "ok"}
    if message["method"] == "initialize":
        answer = HELLO
    elif message["method"] == "execute":
        context = params.pop("_context")
        answer = run({"payload": params, **context})
        (OUTSIDE / "told").write_text(json.dumps(context))
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""


@pytest.fixture
def works(tmp_path: Path) -> Works:
    def as_program(package: Path) -> None:
        added = json.loads((package / "paddock.yaml").read_text())
        write_json(package / "paddock.yaml", added | {"runtime": {"command": ["python3", "./main.py"]}})
        write_file(package / "main.py", (package / "thing.py").read_text() + LINES)

    return Works(tmp_path, change=as_program)


@pytest.mark.req("K-07", "in_progress")
@pytest.mark.req("K-26", "followed to its end")
async def test_a_program_that_is_still_at_work_is_asked_again_until_it_is_through(works: Works) -> None:
    async with works.open() as host:
        made = call(host)
        await works.until("asked")
        works.finish()
        assert await made == SUCCEEDED
    assert works.begun == ["k1"]


async def test_a_program_that_says_failed_has_failed(works: Works) -> None:
    works.finish()
    async with works.open() as host:
        for key, (ends, _) in ENDS.items():
            await failure(call(host, {"ends": ends}, key))
    assert {key: works.effect(key).state for key in ENDS} == {key: state for key, (_, state) in ENDS.items()}
    assert EffectState.SUCCEEDED not in {state for _, state in ENDS.values()}


@pytest.mark.req("K-07", "call")
async def test_a_program_is_told_what_the_document_of_operators_says(works: Works) -> None:
    works.finish()
    async with works.open() as host:
        assert await call(host) == SUCCEEDED
    told = json.loads((works.outside / "told").read_text())
    assert told["idempotency_key"] == "k1"
    assert told["auth_context"]["principal_id"] == ANN.id
    assert told["in_progress"] == {"asked": 1, "result": {"asked": 0}}
    assert set(told["trace_context"]) == {"workflow_id", "step_id", "correlation_id"}
    assert told["policy_snapshot"]["decision"] == "allow"

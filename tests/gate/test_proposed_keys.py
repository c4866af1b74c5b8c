"""The keys that agents hint at: filled in from the payload beside them, or the answer is refused. On a whole host."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gate.test_allowlists import with_planner
from tests.gate.test_governed_calls import ANN, Office, made_by
from tests.host.conftest import Home

from fixtures.packages import write_file, write_json
from paddock.core.errors import PluginError
from paddock.gate.idempotency.hints import fill_idempotency_hints
from paddock.gate.idempotency.key_verdict import validate_idempotency_key
from paddock.manifest.read import read_bytes
from paddock.plugins.manage.enable import enable


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def action(hint: Any, payload: Any = None, operator: str = "mail.send") -> dict[str, Any]:
    return {"operator": operator, "payload": payload, "idempotency_hint": hint}


async def refused(office: Office, answer: Any) -> list[Any]:
    """What is told of an answer that is refused."""
    async with office.open() as host:
        await with_planner(host, answer)
        with pytest.raises(PluginError) as error:
            await host.call("planner.plan", {})
    assert error.value.error_code == "proposal.bad_hint"
    (entry,) = office.calls()
    assert (entry["status"], entry["error_code"]) == ("failed", "proposal.bad_hint")
    return error.value.details["errors"]


@pytest.mark.req("K-25", "filled in")
@pytest.mark.parametrize(
    ("hint", "payload", "key"),
    [
        ("prof_sum:{professor_id}:{digest_hash}", {"professor_id": 910, "digest_hash": "9f3c"}, "prof_sum:910:9f3c"),
        ("mail:{student.id}", {"student": {"id": "s-7"}}, "mail:s-7"),
        ("mail:{student.id}", {"student.id": "itself", "student": {"id": "another"}}, "mail:itself"),
        ("{urgent}/{ratio}/{to}", {"urgent": True, "ratio": 0.5, "to": ""}, "true/0.5/"),
        ("mail:{to}", {"to": "Jürgen {x}\n100 %"}, "mail:J%C3%BCrgen {x}%0A100 %25"),
        ("always-the-same", None, "always-the-same"),
    ],
)
async def test_a_hint_comes_back_as_the_key_that_its_payload_makes_of_it(
    office: Office, hint: str, payload: Any, key: str
) -> None:
    async with office.open() as host:
        await with_planner(host, {"required_actions": [action(hint, payload)]})
        answer = await host.call("planner.plan", {})

    assert answer == {"required_actions": [action(key, payload)]}
    assert validate_idempotency_key(key) == key


@pytest.mark.req("K-25", "filled in")
async def test_hints_are_filled_in_wherever_a_proposal_may_stand_and_the_agents_own_answer_stays_as_it_was(
    office: Office,
) -> None:
    step = {"action": "mail.look", "payload": {"day": 3}, "idempotency_hint": "look:{day}"}
    own = {
        "required_actions": ({**action("send:{to}", {"to": "bob"})}, action(None, {"to": "bob"})),
        "proposed_plan": {"steps": [{"action": "mail.look", "steps": [step]}]},
        "data": [{"next_step_suggestions": [{**step, "text": "Shall I?"}]}],
    }
    before = copy.deepcopy(own)
    async with office.open() as host:
        await with_planner(host, own)
        answer = await host.call("planner.plan", {})

    assert [one["idempotency_hint"] for one in answer["required_actions"]] == ["send:bob", None]
    assert answer["proposed_plan"]["steps"][0]["steps"][0]["idempotency_hint"] == "look:3"
    assert answer["data"][0]["next_step_suggestions"][0]["idempotency_hint"] == "look:3"
    assert own == before


@pytest.mark.req("K-25", "a placeholder left over is refused")
@pytest.mark.parametrize(
    ("hint", "payload", "why"),
    [
        ("prof_sum:{professor_id}:{digest_hash}", {"professor_id": 910}, "{digest_hash} is not in the payload"),
        ("mail:{to}", None, "{to} is not in the payload"),
        ("mail:{to}", {"to": None}, "{to} is not in the payload"),
        ("mail:{student.id.x}", {"student": {"id": 7}}, "{student.id.x} is not in the payload"),
        ("mail:{student}", {"student": {"id": 7}}, "{student} is neither a text nor a number"),
        ("mail:{}", {"": 7}, "a brace that belongs to no placeholder"),
        ("mail:{{to}}", {"to": "bob"}, "a brace that belongs to no placeholder"),
        ("mail:{to", {"to": "bob"}, "a brace that belongs to no placeholder"),
        ("mail:{to}", {"to": "x" * 300}, "is not 1 to 255 printable characters"),
        ("{to}", {"to": ""}, "is not 1 to 255 printable characters"),
        ("{to}", {"to": "call_1"}, "begins with call_"),
        (["mail", "{to}"], {"to": "bob"}, "is no text"),
    ],
)
async def test_a_hint_that_comes_to_no_key_is_refused_with_its_place(
    office: Office, hint: Any, payload: Any, why: str
) -> None:
    told = await refused(office, {"required_actions": [action("fine"), action(hint, payload)]})

    assert [problem["path"] for problem in told] == ["required_actions.1.idempotency_hint"]
    assert why in told[0]["message"]


async def test_all_hints_that_are_wrong_are_told_at_once(office: Office) -> None:
    told = await refused(office, {"required_actions": [action("{a}"), action("{b}"), action("c")]})

    assert sorted(problem["message"] for problem in told) == ["{a} is not in the payload", "{b} is not in the payload"]


async def test_whoever_carries_a_proposal_out_under_its_key_does_it_once(office: Office) -> None:
    async with office.open() as host:
        await with_planner(
            host, {"required_actions": [action("send:{to}", {"to": "bob"}, "mail.note")]}, ("mail.note",)
        )
        (proposed,) = (await host.call("planner.plan", {}))["required_actions"]
        for _ in range(2):
            await host.call(
                proposed["operator"], {}, context=made_by(ANN), idempotency_key=proposed["idempotency_hint"]
            )

    assert office.done == ["note"]


def test_an_answer_deeper_than_python_calls_can_be_is_filled_in_all_the_same() -> None:
    answer: Any = action("mail:{to}", {"to": "bob"})
    for _ in range(5_000):
        answer = [answer]
    filled, problems = fill_idempotency_hints(PLANNER, answer)
    while isinstance(filled, list):
        (filled,) = filled

    assert (filled["idempotency_hint"], problems) == ("mail:bob", [])


ABOUT = {"paddock": 1, "name": "planner", "version": "1.0.0", "description": "Plans", "kind": "agent"}
RUNTIME = {"command": ["python3", "./main.py"]}
PLANNER = read_bytes("paddock.json", json.dumps({**ABOUT, "allowed_actions": [], "runtime": RUNTIME}).encode()).single()
WORDS = st.text(st.characters(), min_size=1, max_size=20)  # also what is no character by itself: a text may hold it


@given(st.lists(st.one_of(WORDS, st.integers(-(2**63), 2**64 - 1), st.booleans()), min_size=1, max_size=4))
def test_what_is_filled_in_is_always_a_key_or_a_mistake_and_other_values_make_another_key(values: list[Any]) -> None:
    fields = {f"f{number}": value for number, value in enumerate(values)}
    hint = "k:" + "|".join(f"{{{name}}}" for name in fields)
    filled, problems = fill_idempotency_hints(PLANNER, action(hint, fields))
    other, _ = fill_idempotency_hints(PLANNER, action(hint, {**fields, "f0": "another"}))

    if problems:
        assert "printable characters" in problems[0].message  # it is too long
    else:
        assert (
            validate_idempotency_key(filled["idempotency_hint"]) != other["idempotency_hint"] or values[0] == "another"
        )


SERVER = """
import json, sys
for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    if heard["method"] == "initialize":
        told = {"protocolVersion": heard["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "planner", "version": "1"}}
    elif heard["method"] == "tools/list":
        told = {"tools": [{"inputSchema": {"type": "object"}, "description": "Plans", "name": "plan"}]}
    elif heard["method"] == "tools/call":
        one = {"operator": "mail.look", "payload": heard["params"]["arguments"], "idempotency_hint": "look:{day}"}
        plan = {"required_actions": [one]}
        told = {"content": [{"type": "text", "text": json.dumps(plan)}], "structuredContent": plan}
    else:
        told = {}
    print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": told}), flush=True)
"""


async def test_hints_of_an_agent_that_is_a_server_are_filled_in_in_data_and_in_text(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_file(tmp_path / "planner" / "main.py", SERVER)
    runtime = {**RUNTIME, "protocol": "mcp"}
    manifest = {**ABOUT, "allowed_actions": ["mail.look"], "runtime": runtime, "capabilities": ["net:[]"]}
    write_json(tmp_path / "planner" / "paddock.json", manifest)
    home.take(tmp_path / "planner")
    home.changing(lambda plugins: enable(plugins, "planner"))

    async with Office(tmp_path).open() as host, asyncio.timeout(60):
        answer = await host.call("planner.plan", {"day": "monday"})
        with pytest.raises(PluginError) as unresolved:
            await host.call("planner.plan", {})

    filled = {"operator": "mail.look", "payload": {"day": "monday"}, "idempotency_hint": "look:monday"}
    assert answer["structuredContent"] == json.loads(answer["content"][0]["text"]) == {"required_actions": [filled]}
    assert {problem["path"] for problem in unresolved.value.details["errors"]} == {
        "structuredContent.required_actions.0.idempotency_hint",
        "content.0.text.required_actions.0.idempotency_hint",
    }

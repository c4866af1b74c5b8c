"""Agents keep to their allowlists, in what they call and in what they propose. On a whole host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by, tool
from tests.host.conftest import Home

from fixtures.packages import write_file, write_json
from paddock.cli.output.explanation_text import explanation_lines
from paddock.core.call import Principal
from paddock.core.errors import Denied, NeedsApproval
from paddock.core.ids import PrincipalId
from paddock.host.host import Host
from paddock.plugins.manage.enable import enable

PLANNER = Principal(PrincipalId("agent:planner"), kind="agent")
STRANGER = Principal(PrincipalId("agent:stranger"), kind="agent")
OFF_THE_LIST = "This is not on the agent's allowlist."


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def with_planner(host: Host, answer: Any = None, allowed: tuple[str, ...] = ("mail.look", "mail.send")) -> None:
    """An agent that answers this, and may call and propose so much."""
    about = {"paddock": 1, "name": "planner", "version": "1.0.0", "description": "Plans", "kind": "agent"}
    manifest = {**about, "allowed_actions": list(allowed), "tools": [tool("plan", "read_only")]}
    await host.embed(manifest, {"plan": lambda: answer})


async def explained(host: Host, call: str) -> str:
    (story,) = await host.policy.explanations.explain(call, ANN)
    return "\n".join(explanation_lines(story.to_value()))


async def test_an_agent_calls_what_is_on_its_allowlist_and_nothing_else(office: Office) -> None:
    async with office.open() as host:
        await with_planner(host)
        assert await host.call("mail.look", {}, context=made_by(PLANNER)) == {"done": "look"}
        with pytest.raises(NeedsApproval, match="Changes by an agent need approval"):
            await host.call("mail.send", {"to": "bob"}, context=made_by(PLANNER))
        with pytest.raises(Denied) as off_it:
            await host.call("mail.note", {}, context=made_by(PLANNER))
        with pytest.raises(Denied):
            await host.call("mail.look", {}, context=made_by(STRANGER))
        told = await explained(host, off_it.value.details["call_id"])

    assert (off_it.value.error_code, off_it.value.details["policies"]) == (
        "policy_denied",
        ["agents-off-their-allowlist"],
    )
    assert OFF_THE_LIST in off_it.value.message
    assert OFF_THE_LIST in told
    assert office.done == ["look"]


@pytest.mark.req("K-05", "off the allowlist")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"required_actions": [{"operator": "mail.look"}, {"operator": "mail.note"}]}, id="an action"),
        pytest.param({"proposed_plan": {"steps": [{"action": "mail.look"}, {"action": "mail.note"}]}}, id="a step"),
        pytest.param({"required_actions": [{"operator": "Nobody.Knows"}]}, id="what nobody has"),
        pytest.param({"required_actions": ["mail.note"]}, id="no object"),
        pytest.param({"proposed_plan": {"steps": [{"action": ["mail.look"]}]}}, id="no name"),
        pytest.param({"required_actions": [{}]}, id="nothing"),
        pytest.param({"proposed_plan": [{"action": "mail.note"}]}, id="a plan that is a list"),
        pytest.param({"proposed_plan": "mail.note"}, id="a plan that is a word"),
        pytest.param({"proposed_plan": {"tasks": [{"action": "mail.note"}]}}, id="a plan without steps"),
        pytest.param({"proposed_plan": {"steps": {"s1": {"action": "mail.look"}}}}, id="steps that are an object"),
        pytest.param({"required_actions": {"operator": "mail.look"}}, id="actions that are an object"),
        pytest.param({"proposed_plan": {"steps": [{"action": "mail.look", "operator": "mail.note"}]}}, id="two names"),
        pytest.param({"required_actions": [{"operator": "mail.look", "tool": "mail.note"}]}, id="another name"),
        pytest.param(
            {"proposed_plan": {"steps": [{"action": "mail.look", "steps": [{"action": "mail.note"}]}]}},
            id="a step within a step",
        ),
        pytest.param({"status": "ok", "data": {"required_actions": [{"operator": "mail.note"}]}}, id="wrapped"),
        pytest.param([{"required_actions": [{"operator": "mail.note"}]}], id="in a list"),
        pytest.param({"steps": [{"action": "mail.note"}]}, id="steps without a plan"),
        pytest.param({"next_step_suggestions": [{"action": "mail.note", "text": "?"}]}, id="a suggestion"),
        pytest.param({"next_step_suggestions": {"action": "mail.look"}}, id="suggestions that are an object"),
        pytest.param({"required_actions": [{"operator": "mail.look"}] * 5000 + [{"operator": "mail.note"}]}, id="late"),
    ],
)
async def test_a_proposal_off_the_allowlist_is_denied_whatever_it_is_wrapped_in(office: Office, answer: Any) -> None:
    async with office.open() as host:
        await with_planner(host, answer)
        with pytest.raises(Denied) as denied:
            await host.call("planner.plan", {})
        told = await explained(host, denied.value.details["call_id"])

    assert denied.value.error_code == "policy_denied"
    assert denied.value.details["policies"] == ["agents-off-their-allowlist"]
    assert OFF_THE_LIST in told
    (entry,) = office.calls()
    assert (entry["status"], entry["decision"], entry["policies"]) == ("denied", "deny", ["agents-off-their-allowlist"])


async def test_a_denied_proposal_is_explained_as_one_with_what_would_have_allowed_it(office: Office) -> None:
    async with office.open() as host:
        await with_planner(host, {"required_actions": [{"operator": "mail.note"}]})
        with pytest.raises(Denied) as denied:
            await host.call("planner.plan", {}, context=made_by(ANN))
        call = denied.value.details["call_id"]
        told, (story,) = await explained(host, call), await host.policy.explanations.explain(call, ANN)

    assert "Its answer proposed mail.note." in told
    assert "it would have been allowed if it were on the allowlist of agent:planner" in told
    assert "Today" not in told
    value: Any = story.to_value()
    assert value["proposed"] == "mail.note"
    assert value["today"]["what"] == "propose mail.note"


async def test_what_an_agent_may_not_call_is_explained_by_its_own_allowlist(office: Office) -> None:
    async with office.open() as host:
        await with_planner(host)
        with pytest.raises(Denied) as denied:
            await host.call("mail.note", {}, context=made_by(PLANNER))
        told = await explained(host, denied.value.details["call_id"])

    assert "a person would have been asked if it were on the allowlist of agent:planner" in told


@pytest.mark.req("K-05", "off the allowlist")
async def test_a_proposal_on_the_allowlist_is_given_back_as_it_is_and_nothing_of_it_is_done(office: Office) -> None:
    plan = {
        "required_actions": [{"operator": "mail.send", "payload": {"to": "bob", "action": "greet"}}],
        "proposed_plan": {"steps": [{"step_id": "s1", "action": "mail.look", "gate": "none", "steps": None}]},
        "next_step_suggestions": [{"type": "followup", "text": "Shall I?"}],
        "rationale": {"short": "Two steps", "steps": ["look", "then send"]},
    }
    async with office.open() as host:
        await with_planner(host, plan)
        assert await host.call("planner.plan", {}) == plan
    assert office.done == []


async def test_what_is_no_agent_proposes_nothing_whatever_its_answer_looks_like(office: Office) -> None:
    async with office.open() as host:
        office.functions["look"] = lambda: {"required_actions": [{"operator": "mail.note"}]}
    async with office.open() as host:
        assert "required_actions" in await host.call("mail.look", {})


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
        tool = {"inputSchema": {"type": "object"}, "description": "Plans"}
        told = {"tools": [tool | {"name": one} for one in ("structured", "written", "harmless")]}
    elif heard["method"] == "tools/call":
        named = "mail.look" if heard["params"]["name"] == "harmless" else "mail.note"
        plan = {"proposed_plan": {"steps": [{"action": named}]}}
        told = {"content": [{"type": "text", "text": "Here is " + json.dumps(plan)}], "structuredContent": plan}
        if heard["params"]["name"] == "written":
            told = {"content": [{"type": "text", "text": json.dumps(plan)}]}
    else:
        told = {}
    print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": told}), flush=True)
"""


async def test_an_agent_that_is_a_server_keeps_to_its_allowlist_in_data_and_in_text(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_file(tmp_path / "planner" / "main.py", SERVER)
    about = {"paddock": 1, "name": "planner", "version": "1.0.0", "description": "Plans", "kind": "agent"}
    runtime = {"command": ["python3", "./main.py"], "protocol": "mcp"}
    manifest = {**about, "allowed_actions": ["mail.look"], "runtime": runtime, "capabilities": ["net:[]"]}
    write_json(tmp_path / "planner" / "paddock.json", manifest)
    home.take(tmp_path / "planner")
    home.changing(lambda plugins: enable(plugins, "planner"))
    office = Office(tmp_path)

    async with office.open() as host, asyncio.timeout(60):
        for tool_name in ("structured", "written"):
            with pytest.raises(Denied) as denied:
                await host.call(f"planner.{tool_name}", {})
            assert denied.value.details["proposed"] == "mail.note"
        assert "structuredContent" in await host.call("planner.harmless", {})

"""What the door back is told of a plugin that asks: which call it serves, what that declares, and who stands behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runtime.stage import Stage, open_stage, patiently

from paddock.capabilities.request import CapabilityRequest
from paddock.core.ids import AgentPath, ProjectId, SessionId

PROGRAM = """
hello(features=["call_tokens"])
def ask(request):
    token = {"_call": request["params"]["_call"]} if not request["params"].get("alone") else {}
    send({"jsonrpc": "2.0", "id": 1, "method": "paddock.cache.get", "params": {"key": "k", **token}})
    read()
    return {"done": True}
serve(do_it=ask, do_this=ask, do_that=ask, paddock_hook_on_session_start=ask)
"""
METHODS = [
    {"name": "do.it", "effects": ["read_only"]},
    {"name": "do.this", "effects": ["db_write", "email_send"]},
    {"name": "do.that"},
]


class Witness:
    """A door that remembers who asked, and counts as the real one does."""

    def __init__(self) -> None:
        self.asked: list[CapabilityRequest] = []
        self._news = asyncio.Condition()

    async def heard(self, times: int) -> None:
        """Wait until it was asked so often."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.asked) >= times)

    async def answer(self, asking: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
        del params
        self.asked.append(asking)
        if asking.method_counts is not None:
            asking.method_counts[method] = asking.method_counts.get(method, 0) + 1
        async with self._news:
            self._news.notify_all()
        return {}


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
async def stage(tmp_path: Path, witness: Witness) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path, answer_request=witness.answer) as stage:
        yield stage


async def test_a_request_in_a_call_comes_with_the_effects_that_the_rules_see_in_that_call(
    stage: Stage, witness: Witness
) -> None:
    actor = stage.actor(PROGRAM, methods=METHODS, capabilities=["storage:write"])
    for method in ("do.it", "do.this", "do.that"):
        await actor.call(method)
    await actor.call("do.this", alone=True)

    assert [asking.effects for asking in witness.asked] == [
        {"read_only"},
        {"db_write", "external_send"},
        {"unknown"},
        None,
    ]


async def test_a_request_that_names_no_call_comes_with_the_effects_of_all_that_are_under_way(
    stage: Stage, witness: Witness
) -> None:
    program = """
hello(features=["call_tokens"])
def ask():
    send({"jsonrpc": "2.0", "id": 1, "method": "paddock.cache.get", "params": {"key": "k"}})
    return read()
held = []
def wait(request):
    held.append(request["id"])
    ask()
def finish(request):
    ask()
    while held:
        send({"jsonrpc": "2.0", "id": held.pop(), "result": {}})
    send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
    ask()
serve(do_it=wait, do_this=wait, do_that=finish, paddock_hook_on_session_start=finish)
"""
    actor = stage.actor(
        program, methods=METHODS, capabilities=["storage:write"], hooks=["on_session_start"], roles=["observer"]
    )
    async with asyncio.TaskGroup() as calls:
        for number, method in enumerate(("do.it", "do.it", "do.this", "do.that"), start=1):
            calls.create_task(actor.call(method))
            await witness.heard(number)
    await witness.heard(5)
    async with asyncio.TaskGroup() as calls:
        calls.create_task(actor.call("do.it"))
        await witness.heard(6)
        session = stage.context(project=ProjectId("p"), agent_path=AgentPath("a"), session=SessionId("s"))
        await patiently(stage.supervisor.fire(actor.key, "on_session_start", {}, session))

    alone, all_of_them = {"read_only"}, {"read_only", "db_write", "external_send"}
    assert [asking.process_effects for asking in witness.asked[:7]] == [
        alone,
        alone,
        all_of_them,
        all_of_them | {"unknown"},
        None,  # nothing is under way
        alone,
        None,  # it may be for the moment of the session, which declares nothing
    ]
    assert all(asking.effects is None for asking in witness.asked)


async def test_each_call_has_a_count_of_its_own_and_what_names_no_call_has_none(stage: Stage, witness: Witness) -> None:
    actor = stage.actor(PROGRAM)
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for tally, params in ((first, {}), (second, {}), (second, {"alone": True})):
        spec, context = actor.spec("do.it"), stage.context()
        await patiently(stage.supervisor.call(actor.key, spec, params, context, method_counts=tally))

    assert (first, second) == ({"paddock.cache.get": 1}, {"paddock.cache.get": 1})
    assert witness.asked[-1].method_counts is None


async def test_a_moment_of_a_session_declares_no_effects_and_has_no_entry_to_count_in(
    stage: Stage, witness: Witness
) -> None:
    actor = stage.actor(PROGRAM, hooks=["on_session_start"], roles=["observer"])
    session = stage.context(project=ProjectId("p"), agent_path=AgentPath("a"), session=SessionId("s"))
    await patiently(stage.supervisor.fire(actor.key, "on_session_start", {}, session))

    (asking,) = witness.asked
    assert asking.call == session
    assert (asking.effects, asking.method_counts) == (None, None)


async def test_who_stands_behind_a_running_plugin_counts_as_soon_as_that_changes(
    stage: Stage, witness: Witness
) -> None:
    actor = stage.actor(PROGRAM)
    await actor.call("do.it")
    pid = actor.status.pid
    deployment = stage.supervisor.deployment(actor.key)
    stage.supervisor.deploy(replace(deployment, tier="verified", signature="trusted"), start=False)
    await actor.call("do.it")

    before, after = (asking.principal.traits for asking in witness.asked)
    assert (before.tier, before.signature) == ("personal", "unsigned")
    assert (after.tier, after.signature) == ("verified", "trusted")
    assert actor.status.pid == pid, "it goes on running"

"""Every revision of the protocol, in a cage and over HTTP, with servers on the official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.mcp.playing import REVISIONS, WAYS, McpPlayer, playing
from tests.runtime.stage import Stage

from paddock.core.errors import CallerError, PluginError
from paddock.manifest.model import CallableForm
from paddock.runtime.calls import Question, QuestionAnswer
from paddock.runtime.lifecycle import PluginState


def at_the_ends(*revisions: str) -> pytest.MarkDecorator:
    """The first and the last of these in every run, and those between in the slow set too."""
    between = revisions[1:-1]
    given = [
        pytest.param((way, one), marks=[pytest.mark.slow] if one in between else [], id=f"{way}-{one}")
        for way in WAYS
        for one in revisions
    ]
    return pytest.mark.parametrize("server", given, indirect=True)


# Over HTTP too. The revisions between the first and the last are for the slow set.
in_a_cage_and_elsewhere = pytest.mark.parametrize(
    "server",
    [
        pytest.param((way, one), marks=[pytest.mark.slow] if one in REVISIONS[1:-1] else [], id=f"{way}-{one}")
        for way in WAYS
        for one in REVISIONS
    ],
    indirect=True,
)


@pytest.fixture
async def server(request: pytest.FixtureRequest, stage: Stage) -> AsyncGenerator[McpPlayer, None]:
    way, revision = request.param
    async with playing(stage, way, revision) as player:
        status = await player.actor.settled()
        assert status.state is PluginState.RUNNING, status
        assert status.features == (f"mcp:{revision}",)
        yield player


@in_a_cage_and_elsewhere
async def test_a_server_is_met_in_its_own_revision_and_does_all_that_it_offers(server: McpPlayer) -> None:
    audience = server.actor.stage.audience
    listed = [(one.kind, one.name) for one in audience.definitions["server"]]
    assert ("instructions", "") in listed and ("tool", "echo") in listed and ("tool", "log") in listed
    assert {kind for kind, _ in listed} == {"instructions", "tool", "prompt", "resource", "resource_template"}

    echoed = await server.call("echo", {"text": "hi"})
    assert echoed["content"][0]["text"] == "hi"
    heard: list[list[Any]] = [[], []]  # of two calls at once, each has its own
    said = await asyncio.gather(*(server.said("slow", on_event=events.append) for events in heard))
    assert said == ["done"] * 2
    for events in heard:
        assert [(event["progress"], event["total"], event["message"]) for event in events] == [
            (step, 3, f"step {step}") for step in (1, 2, 3)
        ]
    with pytest.raises(PluginError) as failed:
        await server.call("fail")
    assert failed.value.error_code == "tool.failed" and failed.value.message == r"it \x1b[31mbroke"
    assert failed.value.details["content"][0]["text"] == "it \x1b[31mbroke"
    with pytest.raises(CallerError, match="not like this"):
        await server.call("refuse")
    read = await server.call("memo", {"uri": "memo://two"}, form=CallableForm.RESOURCE)
    assert read["contents"][0]["text"] == "read memo://two"
    prompt = await server.call("greet", {"name": "greet", "arguments": {"who": "Ann"}}, form=CallableForm.PROMPT)
    assert prompt["messages"][0]["content"]["text"] == "Greet Ann"
    reference = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "A"}}
    completed = await server.call("who", reference, form=CallableForm.COMPLETION)
    assert completed["completion"]["values"] == ["Alice"]
    assert set(echoed) <= {"content", "structuredContent"}, "what belongs to the wire stays there"
    unheard = await server.call("slow")
    assert unheard["content"][0]["text"] == "done, and nobody asked how far it was"
    await server.call("log")
    await audience.until(lambda: r"[warning] eyes: looking \x07around" in audience.lines)


@at_the_ends(*REVISIONS[2:])
async def test_a_server_may_ask_the_person_behind_a_call(server: McpPlayer) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("accept", {"colour": "green" if len(asked) == 1 else "blue"})

    answered = await server.said("ask", ask=ask)

    assert answered.split()[:2] == ["accept", "blue"]
    assert [question.message for question in asked] == ["Which colour?"] * 2
    assert asked[0].problems == () and asked[1].problems[0].path == "colour", "green was not on offer"
    named = "colour" if "mcp:2026-07-28" in (await server.actor.settled()).features else ""
    assert {question.key for question in asked} == {named}, "what a server calls its question goes with it"
    assert (await server.said("ask")).split()[0] == "decline", "without anybody to ask"


@at_the_ends(*REVISIONS)
async def test_a_server_that_changes_what_it_offers_is_looked_at_again(server: McpPlayer) -> None:
    audience = server.actor.stage.audience
    await server.said("grow")
    grown = await audience.until(
        lambda: [one for one in audience.definitions["server"] if one.kind == "tool" and one.name == "grown"]
    )
    assert grown[0].raw["description"] == "It does grown"

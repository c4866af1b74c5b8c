"""What servers offer and answer that no server should, and what a caller sees of it."""

from __future__ import annotations

import asyncio

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.mcp.playing import caged, scripted
from tests.runtime.stage import Stage, patiently

from paddock.core.errors import PluginError, TimedOut
from paddock.core.events.plugin_runtime import PluginSpawned
from paddock.manifest.model import CallableSpec
from paddock.plugins.tool_pinning.mcp_tool import parse_tools
from paddock.plugins.tool_pinning.normalize import UnusableReason
from paddock.runtime.calls import Question, QuestionAnswer
from paddock.runtime.lifecycle import PluginState
from paddock.runtime.protocol_adapter import DefinitionList


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


async def test_bad_tools_are_told_apart_and_harm_no_other(stage: Stage) -> None:
    server = scripted(
        stage,
        r"""
obj = {"type": "object"}
tools = [
    {"name": "good", "title": "Good", "description": "Two\nlines \u202e and \u001b[2J", "inputSchema": obj,
     "annotations": {"readOnlyHint": True}},
    {"name": "no schema"}, {"name": "plain"}, "text", 7, None, {"inputSchema": obj}, {"name": 5},
    {"name": "good", "inputSchema": obj},
    {"name": "array", "inputSchema": {"type": "array"}},
    {"name": "broken", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
    {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://evil.example/s"}}}},
    {"name": "huge", "description": "x" * 300_000, "inputSchema": obj},
    {"name": "odd", "description": ["not text"], "inputSchema": obj},
    {"name": "out", "inputSchema": obj, "outputSchema": {"type": 5}},
    {"name": "echo", "inputSchema": obj},
]
serve(tools)
""",
    )
    assert await server.said("echo", {"text": "hi"}) == "hi"
    raws = [one.raw for one in stage.audience.definitions["server"]]
    verdicts = parse_tools(raws)

    usable = [one.name for one in verdicts if isinstance(one, CallableSpec)]
    assert len(raws) == 16 and usable == ["good", "plain", "echo"]
    assert all(one.reason and one.repair for one in verdicts if isinstance(one, UnusableReason))
    good = verdicts[0]
    assert isinstance(good, CallableSpec) and good.effects is None and good.annotations == {"readOnlyHint": True}
    assert good.description == "Two\nlines \\u202e and \\x1b[2J", "nothing in it is hidden from a person"


@pytest.mark.parametrize(
    ("script", "count", "left_out"),
    [
        ("lambda request: {'tools': ECHO, 'nextCursor': 'the same'}", 2, 0),
        (
            "lambda request: {'tools': [{'name': f't{n}'} for n in range(600)], 'nextCursor': str(time.time())}",
            1_000,
            200,
        ),
        ("lambda request: {'tools': [], 'nextCursor': str(time.time())}", 0, 1),
        ("lambda request: {'tools': [{'name': 'a', 'x': 'y' * 3_000_000}], 'nextCursor': str(time.time())}", 2, 1),
    ],
    ids=["a circle", "too many", "no end", "too much"],
)
async def test_a_list_without_end_is_read_to_a_bound_and_what_is_left_out_counted(
    stage: Stage, script: str, count: int, left_out: int
) -> None:
    server = scripted(stage, f"serve(tools_list={script})")
    assert (await server.actor.settled()).state is PluginState.RUNNING
    listed = stage.audience.definitions["server"]
    assert isinstance(listed, DefinitionList)
    assert (len(listed), listed.omitted_count) == (count, left_out)


@pytest.mark.parametrize("result", ["'text'", "{'content': 5}", "[]", "{'resultType': 'task', 'taskId': 'x'}"])
async def test_an_answer_that_is_no_result_fails_the_call_alone(stage: Stage, result: str) -> None:
    server = scripted(stage, f"serve(tools_call=lambda request: {result})")
    with pytest.raises(PluginError) as raised:
        await server.call("echo")
    assert raised.value.error_code == "tool.malformed_result"
    assert len(stage.audience.of(PluginSpawned)) == 1


@pytest.mark.slow
async def test_a_server_stuck_in_a_call_is_ended_when_it_cannot_say_that_it_is_well(stage: Stage) -> None:
    server = caged(stage, "2025-06-18")
    await server.actor.settled()
    with pytest.raises(TimedOut):
        await server.said("block", timeout_sec=1)
    await stage.audience.event(PluginSpawned, 2)
    await server.actor.until(PluginState.RUNNING)
    assert await server.said("echo", {"text": "back"}) == "back"


async def test_nobody_is_asked_when_it_is_not_clear_for_which_call(stage: Stage) -> None:
    server = caged(stage, "2025-06-18")
    await server.actor.settled()
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("accept", {"colour": "red"})

    hanging = asyncio.ensure_future(server.said("hang", ask=ask))
    await stage.audience.until(lambda: server.actor.status.in_flight == 1 or None)
    assert await server.said("ask", ask=ask) == "cancel None"
    hanging.cancel()
    await asyncio.wait({hanging})
    assert await server.said("ask", ask=ask) == "accept red"
    assert len(asked) == 1


async def test_while_a_question_waits_the_time_of_its_call_stands_still(stage: Stage) -> None:
    server = caged(stage, "2026-07-28", name="server")
    await server.actor.settled()

    async def ponder(question: Question) -> QuestionAnswer:
        with hurrying():
            await asyncio.sleep(30)
        return QuestionAnswer("accept", {"colour": "red"})

    assert await server.said("ask", timeout_sec=5, ask=ponder) == "accept red kept"


async def test_a_question_ends_with_its_call(stage: Stage) -> None:
    server = caged(stage, "2025-06-18")
    await server.actor.settled()
    asking, dropped = asyncio.Event(), asyncio.Event()

    async def never(question: Question) -> QuestionAnswer:
        asking.set()
        try:
            await asyncio.Event().wait()
        finally:
            dropped.set()
        raise AssertionError

    call = asyncio.ensure_future(server.said("ask", ask=never))
    await patiently(asking.wait())
    call.cancel()
    await patiently(dropped.wait())
    assert await server.said("echo", {"text": "hi"}) == "hi"


async def test_a_page_to_visit_is_shown_and_never_opened(stage: Stage) -> None:
    server = caged(stage, "2025-11-25")
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("accept", {"ignored": 1})

    assert await server.said("visit", ask=ask) == "accept"
    assert asked == [Question("Please sign in", url="https://example.com/sign-in")]

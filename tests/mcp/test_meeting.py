"""Meeting servers that know only some revisions, and take the others badly; and servers that talk out of turn."""

from __future__ import annotations

import pytest
from tests.fixtures.paced_loop import hurrying, paced
from tests.mcp.playing import scripted
from tests.runtime.stage import Stage, patiently
from tests.runtime.witness import next_life

from paddock.core.events.contracts import PluginInitializeTimeout
from paddock.core.events.plugin_runtime import PluginSpawned, PluginStdoutNoise
from paddock.runtime.lifecycle import PluginState


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return paced()


async def test_a_server_that_takes_anything_but_a_handshake_badly_is_met_at_its_first_start(stage: Stage) -> None:
    server = scripted(
        stage,
        """
first = read()
if first["method"] != "initialize":
    sys.exit("expected initialize")
answer(first, ABOUT)
serve()
""",
    )
    status = await server.actor.until(PluginState.RUNNING)

    assert status.features == ("mcp:2025-06-18",)
    assert await server.said("echo", {"text": "hi"}) == "hi"
    await stage.supervisor.stop(server.actor.key)
    assert await server.said("echo", {"text": "again"}) == "again"
    assert len(stage.audience.of(PluginSpawned)) == 2


async def test_a_server_that_answers_nothing_is_given_up_with_the_reason(stage: Stage) -> None:
    server = scripted(stage, "while True: print(read(), file=sys.stderr, flush=True)")
    await server.logged("initialize")
    with hurrying():
        await stage.audience.event(PluginInitializeTimeout)
    status = await server.actor.until(PluginState.FAILED)
    assert status.error_code == "initialize.timeout"
    assert len(stage.audience.of(PluginSpawned)) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        "refuse(request, -32022, 'none', data={'supported': ['2026-07-28'], 'requested': '2025-11-25'})",
        "refuse(request, -32601, 'unknown method')",
        "refuse(request, -32602, 'the protocol version is missing')",
        "answer(request, {**ABOUT, 'protocolVersion': '2026-07-28'})",
    ],
    ids=["names its revision", "does not know it", "misses what it wants", "answers with its own"],
)
async def test_a_server_that_has_done_with_handshakes_is_met_without_one_and_that_is_remembered(
    stage: Stage, refusal: str
) -> None:
    server = scripted(
        stage,
        f"""
asked = []
found = {{"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {{"tools": {{}}}}}}
def hello(request):
    asked.append("handshake")
    {refusal}
def call(request):
    meta = request["params"]["_meta"]
    return {{"resultType": "complete", **text(meta["io.modelcontextprotocol/protocolVersion"] + str(asked))}}
serve(server_discover=lambda request: found, initialize=hello, tools_call=call)
""",
    )
    status = await server.actor.until(PluginState.RUNNING)
    assert status.features == ("mcp:2026-07-28",)
    assert await server.said("echo") == "2026-07-28['handshake']"
    await stage.supervisor.stop(server.actor.key)
    assert await server.said("echo") == "2026-07-28[]"


async def test_a_server_that_ends_over_a_handshake_is_met_without_one_in_its_next_life(stage: Stage) -> None:
    server = scripted(
        stage,
        """
found = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
said = lambda request: {"resultType": "complete", **text("hi")}
serve(server_discover=lambda request: found, initialize=lambda request: sys.exit(3), tools_call=said)
""",
    )
    status = await next_life(server.actor)  # which takes what it takes: only the pause before it is hurried
    assert status.state is PluginState.RUNNING
    assert status.features == ("mcp:2026-07-28",) and status.failures == 1
    assert await server.said("echo") == "hi"


@pytest.mark.parametrize("then", ["sys.exit(1)", "pass"], ids=["and ends", "and ignores what it does not know"])
async def test_what_a_server_says_when_it_refuses_reaches_people(stage: Stage, then: str) -> None:
    server = scripted(
        stage,
        f"""
def refusing(request):
    refuse(request, -32603, 'the API key is missing')
    {then}
serve(initialize=refusing, server_discover=lambda request: None)
""",
    )
    status = await server.actor.settled()
    assert status.state is PluginState.FAILED and "the API key is missing" in status.reason
    assert len(stage.audience.of(PluginSpawned)) == 1


async def test_banners_and_json_log_lines_on_its_output_disturb_nothing(stage: Stage) -> None:
    noise = r"""
def banner():
    print("\n> server@1.0.0 start\n> node .", json.dumps({"level": "info", "msg": "ready"}), "[1, 2]", sep="\n")
    sys.stdout.flush()
banner()
def call(request):
    banner()
    return text("said")
def hello(request):
    banner()
    return ABOUT
serve(tools_call=call, initialize=hello)
"""
    server = scripted(stage, noise)
    assert (await server.actor.settled()).state is PluginState.RUNNING
    assert await server.said("echo") == "said"
    assert len(stage.audience.of(PluginSpawned)) == 1
    assert stage.audience.of(PluginStdoutNoise)[0].line == "> server@1.0.0 start"


async def test_a_server_may_ask_and_tell_before_its_first_answer(stage: Stage) -> None:
    server = scripted(
        stage,
        """
heard = []
def hello(request):
    send(method="notifications/message", params={"level": "info", "data": {"loading": 3}})
    send(method="notifications/tools/list_changed")
    send(id="r1", method="roots/list")
    send(id="p1", method="ping")
    send(id="s1", method="sampling/createMessage", params={"messages": []})
    heard.extend(read() for _ in range(3))
    return ABOUT
serve(initialize=hello, tools_call=lambda request: text(json.dumps(heard)))
""",
    )
    heard = await server.said("echo")
    assert '"id": "r1", "result": {"roots": []}' in heard and '"id": "p1", "result": {}' in heard
    assert '"id": "s1", "error": {"code": -32601' in heard, "no model of ours is lent to a server"
    assert '[info] {"loading":3}' in stage.audience.lines


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("answer(request, {**ABOUT, 'protocolVersion': '1999-01-01'})", "1999-01-01"),
        ("refuse(request, -32000, 'go away')", "go away"),
        ("refuse(request, -32022, 'no', data={'supported': ['2031-01-01']})", "2031-01-01"),
        ("answer(request, 'hello')", "revision"),
    ],
    ids=["unknown revision", "refusal", "only newer ones", "no object"],
)
async def test_a_server_that_we_cannot_talk_to_fails_with_the_reason_and_is_not_started_again(
    stage: Stage, answer: str, reason: str
) -> None:
    server = scripted(stage, f"while True:\n    request = read()\n    {answer}")
    status = await server.actor.settled()
    assert status.state is PluginState.FAILED and reason in status.reason
    assert len(stage.audience.of(PluginSpawned)) == 1


async def test_a_server_that_cannot_list_its_tools_is_no_server(stage: Stage) -> None:
    server = scripted(stage, "serve(tools_list=lambda request: refuse(request, -32603, 'the disk is full'))")
    status = await server.actor.until(PluginState.CRASHED)
    assert "did not say what it offers" in status.reason and "the disk is full" in status.reason


async def test_a_server_without_ping_is_well_as_long_as_it_says_so(stage: Stage) -> None:
    quiet = "asked = []\nserve(ping=lambda request: (asked.append(1), refuse(request))[1], "
    server = scripted(
        stage, quiet + "tools_call=lambda request: text(str(len(asked))))", timing={"health_interval_sec": 5}
    )
    await server.actor.settled()

    async def asked_often() -> None:
        while int(await server.said("echo")) < 5:
            pass

    with hurrying(5.0):
        await patiently(asked_often())
    assert len(stage.audience.of(PluginSpawned)) == 1

"""The official Python client, in every revision: over HTTP, over stdio through the daemon, and over stdio alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client import session as official
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.mcp.playing import REVISIONS
from tests.mcp_proofs.behind import command, home_with_server

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.people import key_of

STATELESS = "2026-07-28"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Paddock:
    paddock = home_with_server(tmp_path_factory.mktemp("proofs"), STATELESS)
    paddock.quickly("user", "add", "ann")
    return paddock


@pytest.fixture(scope="module")
def served(home: Paddock) -> Generator[Daemon, None, None]:
    with daemon(home) as started:
        yield started


@pytest.fixture
async def over_http(served: Daemon) -> AsyncGenerator[Any, None]:
    host, port = served.tcp
    shown = {"Authorization": f"Bearer {key_of(served.paddock, 'ann')}"}
    async with httpx2.AsyncClient(headers=shown, timeout=PATIENCE) as http:
        yield streamable_http_client(f"http://{host}:{port}/mcp", http_client=http)


@pytest.fixture
def proposing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """How a client is told to speak a revision: it proposes its newest by itself."""

    def propose(revision: str) -> str:
        if revision == STATELESS:
            return revision
        monkeypatch.setattr(official, "LATEST_HANDSHAKE_VERSION", revision)
        return "legacy"

    return propose


def over_stdio(home: Paddock, *more: str) -> StdioServerParameters:
    program, arguments, environment = command(home)
    return StdioServerParameters(command=program, args=[*arguments, *more], env=environment)


@asynccontextmanager
async def connected(way: Any, mode: Any, **options: Any) -> AsyncGenerator[Any, None]:
    """A client, and the first thing that goes wrong with it: not a group of groups."""
    async with asyncio.timeout(PATIENCE):
        try:
            async with Client(way, mode=mode, **options) as client:
                yield client
        except BaseExceptionGroup as group:
            first: BaseException = group
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None


class Person:
    """Somebody who answers whatever they are asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, _: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], "Ada"))


_BETWEEN = REVISIONS[1:-2]
IN_EVERY_REVISION = pytest.mark.parametrize(
    "revision", [pytest.param(one, marks=[pytest.mark.slow] if one in _BETWEEN else []) for one in REVISIONS]
)


async def all_of_it(way: Any, mode: Any, revision: str) -> None:
    """What any client does with any server."""
    person = Person()
    async with connected(way, mode, elicitation_callback=person) as client:
        assert client.protocol_version == revision
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        hints = tools["conformance__test_simple_text"].annotations
        assert hints.read_only_hint if revision > "2025" else hints is None  # the first revision had no room for them

        said = await client.call_tool("conformance__test_simple_text", {})
        assert said.content[0].text == "This is a simple text response for testing."
        mixed = await client.call_tool("conformance__test_multiple_content_types", {})
        assert [one.type for one in mixed.content] == ["text", "image", "resource"]
        failed = await client.call_tool("conformance__test_error_handling", {})
        assert failed.is_error and "intentionally" in failed.content[0].text
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("conformance__absent", {})

        steps: list[float] = []

        async def progressed(done: float, total: float | None, message: str | None) -> None:
            steps.append(done)

        await client.call_tool("conformance__test_tool_with_progress", {}, progress_callback=progressed)
        assert steps == [0, 50, 100]

        asking = await client.call_tool("conformance__test_input_required_result_elicitation", {})
        if revision < "2025-06":  # nobody could be asked anything then
            assert asking.content[0].text == "Hello, None!" and person.asked == []
        else:
            assert asking.content[0].text == "Hello, Ada!" and person.asked == ["conformance: What is your name?"]

        await _everything_to_read(client)


async def _everything_to_read(client: Any) -> None:
    assert "test://static-text" in [str(one.uri) for one in (await client.list_resources()).resources]
    read = await client.read_resource("test://static-text")
    assert read.contents[0].text == "This is the content of the static text resource."
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template == "test://template/{id}/data"
    filled = await client.read_resource("test://template/123/data")
    assert '"id":"123"' in filled.contents[0].text
    with pytest.raises(MCPError, match="not found"):
        await client.read_resource("test://absent")

    prompts = {one.name: one for one in (await client.list_prompts()).prompts}
    given = {"arg1": "hello", "arg2": "world"}
    assert {one.name for one in prompts["conformance__test_prompt_with_arguments"].arguments} == set(given)
    prompt = await client.get_prompt("conformance__test_prompt_with_arguments", given)
    assert prompt.messages[0].content.text == "Prompt with arguments: arg1='hello', arg2='world'"
    reference = types.PromptReference(name="conformance__test_prompt_with_arguments")
    completed = await client.complete(reference, {"name": "arg1", "value": "par"})
    assert completed.completion.values == ["paris", "park", "party"]


@pytest.mark.req("B-01", "tools")
@pytest.mark.req("B-01", "resources")
@pytest.mark.req("B-01", "prompts")
@IN_EVERY_REVISION
async def test_the_python_client_uses_everything_over_http(over_http: Any, proposing: Any, revision: str) -> None:
    await all_of_it(over_http, proposing(revision), revision)


@pytest.mark.req("B-01", "any client")
@IN_EVERY_REVISION
async def test_the_python_client_uses_everything_over_stdio(served: Daemon, proposing: Any, revision: str) -> None:
    await all_of_it(over_stdio(served.paddock), proposing(revision), revision)


@pytest.fixture
def unserved(tmp_path: Path) -> Paddock:
    return home_with_server(tmp_path, "handshake")


@pytest.mark.parametrize("revision", [REVISIONS[-2], pytest.param(STATELESS, marks=pytest.mark.slow)])
async def test_the_python_client_uses_everything_over_stdio_without_a_daemon(
    unserved: Paddock, proposing: Any, revision: str
) -> None:
    await all_of_it(over_stdio(unserved), proposing(revision), revision)


async def test_a_client_that_cancels_hears_nothing_more_and_the_call_ends(served: Daemon) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async with connected(over_stdio(served.paddock), STATELESS, message_handler=hear) as client:
        with anyio.move_on_after(0.05):
            await client.call_tool("conformance__test_reconnection", {})
        said = await client.call_tool("conformance__test_simple_text", {})
        assert said.content[0].text == "This is a simple text response for testing."
    assert [one for one in heard if isinstance(one, Exception)] == []

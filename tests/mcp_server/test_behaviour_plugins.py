"""A plugin of the behaviour dialect that is an MCP server: its tools, documents and prompts reach MCP clients."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.mcp_server.speaking import Client

from fixtures.butler import PROGRAM
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import osqr, write_file, write_json
from fixtures.policies import ask_about_nothing_unknown

PLUGIN = "fourth-formula"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("behaviour")
    paddock = Paddock(folder / "home")
    package = osqr(folder / "formula")
    write_json(package / "paddock.yaml", {"runtime": {"command": ["python3", "./main.py"], "protocol": "mcp"}})
    write_file(package / "main.py", PROGRAM)
    paddock.quickly("plugin", "install", package, "--yes", "--grant", "net:api.openai.com:443")
    paddock.quickly("plugin", "enable", PLUGIN)
    ask_about_nothing_unknown(paddock.home)
    with daemon(paddock) as started:
        yield started


@pytest.mark.req("O-32")
def test_its_tools_are_listed_and_called(served: Daemon) -> None:
    client = Client(served)

    assert f"{PLUGIN}__grow" in {tool["name"] for tool in client.ask("tools/list").result["tools"]}
    assert client.call(f"{PLUGIN}__grow").result["structuredContent"] == {"done": "grow"}
    assert "error" in client.call(f"{PLUGIN}__shrink").message


@pytest.mark.req("O-07")
def test_its_knowledge_is_listed_and_read_as_resources(served: Daemon) -> None:
    client = Client(served)

    assert "memo://one" in {one["uri"] for one in client.ask("resources/list").result["resources"]}
    assert client.ask("resources/read", uri="memo://one").result["contents"][0]["text"] == "read memo://one"
    (template,) = client.ask("resources/templates/list").result["resourceTemplates"]
    assert template["uriTemplate"] == "memo://notes/{name}"
    filled = client.ask("resources/read", uri="memo://notes/today").result["contents"][0]
    assert filled["text"] == "read memo://notes/today"
    assert client.ask("resources/read", uri="memo:///etc/passwd").error["code"] == -32002


@pytest.mark.req("O-25")
def test_its_prompts_are_listed_and_rendered_with_checked_arguments(served: Daemon) -> None:
    client = Client(served)

    (prompt,) = client.ask("prompts/list").result["prompts"]
    assert prompt["name"] == f"{PLUGIN}__greet"
    assert [(one["name"], one.get("required", False)) for one in prompt["arguments"]] == [("who", True), ("how", False)]
    told = client.ask("prompts/get", name=prompt["name"], arguments={"who": "Ann"}).result["messages"]
    assert told == [{"role": "user", "content": {"type": "text", "text": "Greet Ann"}}]
    for wrong in ({}, {"how": "kindly"}, {"who": "Ann", "when": "now"}):
        assert client.ask("prompts/get", name=prompt["name"], arguments=wrong).error["code"] == -32602, wrong

"""What clients see: names that model providers take, hints made of effects, documents under one roof, and changes."""

from __future__ import annotations

import json
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_server.speaking import Client, asking, headers_of, listening, send, stamped

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.mail import mail
from fixtures.packages import native, write_file

LONG = "a_tool_with_a_name_that_is_longer_than_model_providers_let_any_tool_have"
ODD = r"""
import json, sys
names = ["a.b", "a/b", "{long}"]
for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    result = {{}}
    if heard["method"] == "initialize":
        about = {{"name": "odd", "version": "1"}}
        result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": about}}
    elif heard["method"] == "tools/list":
        field = {{"type": "string", "x-mcp-header": "Word"}}
        schema = {{"type": "object", "properties": {{"word": field}}}}
        result = {{"tools": [{{"name": name, "inputSchema": schema}} for name in names]}}
    elif heard["method"] == "tools/call":
        result = {{"content": [{{"type": "text", "text": heard["params"]["name"]}}]}}
    print(json.dumps({{"jsonrpc": "2.0", "id": heard["id"], "result": result}}), flush=True)
"""
LISTS = """
from paddock_sdk import Plugin

plugin = Plugin("lists", "1.0.0")

@plugin.tool
def words(params, context):
    return ["one", "two"]

plugin.run()
"""
ARRAY = {"type": "array", "items": {"type": "string"}}


def odd(root: Path) -> Path:
    """A server whose tools have names that model providers do not take."""
    server = {"command": ["python3", "./main.py"], "protocol": "mcp"}
    native(root, "odd", runtime=server, capabilities=[], tools=None)
    write_file(root / "main.py", ODD.format(long=LONG))
    return root


def lists(root: Path) -> Path:
    """A plugin whose answer is no object."""
    words = {"name": "words", "title": "The words", "description": "Words", "effects": ["temp_write"]}
    words |= {"input_schema": {"type": "object"}, "output_schema": ARRAY}
    native(root, "lists", runtime={"command": ["python3", "./main.py"]}, capabilities=["net:[]"], tools=[words])
    write_file(root / "main.py", LISTS)
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Paddock:
    folder = tmp_path_factory.mktemp("offers")
    paddock = Paddock(folder / "home", more={"PADDOCK_GATEWAY_PAGE_SIZE": "4"})
    paddock.home.mkdir()
    (paddock.home / "config.toml").write_text('[gateway]\nnames = ["write=mail.send"]\ninstructions = "Be brief."\n')
    packages = (
        odd(folder / "odd"),
        lists(folder / "lists"),
        butler(folder / "butler"),
        butler(folder / "valet", "valet"),
        mail(folder / "mail"),
    )
    for package in packages:
        paddock.quickly("plugin", "install", package, "--yes")
    for name in ("odd", "lists", "butler", "valet", "mail"):
        paddock.quickly("plugin", "enable", name)
    return paddock


@pytest.fixture(scope="module")
def served(home: Paddock) -> Generator[Daemon, None, None]:
    with daemon(home) as started:
        yield started


def all_of(client: Client, method: str, kind: str) -> list[dict[str, Any]]:
    """A whole list, page by page."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.ask(method, **cursor).result
        assert len(page[kind]) <= 4
        found += page[kind]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


@pytest.mark.req("G-11", "named after the plugin")
def test_tools_have_names_that_model_providers_take_and_are_found_page_by_page(served: Daemon) -> None:
    client = Client(served)
    assert client.greeting["instructions"] == "Be brief."
    tools = {str(tool["name"]): tool for tool in all_of(client, "tools/list", "tools")}

    assert {"write", "mail__look", "mail__odd", "butler__paint", "valet__paint"} <= set(tools)
    assert "mail__send" not in tools, "it was given another name"
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in tools)
    odd = {tool["_meta"]["dev.paddock/name"]: name for name, tool in tools.items() if name.startswith("odd__")}
    assert len(set(odd.values())) == 3, "no two have one name"
    for full_name, name in odd.items():
        assert client.call(name, word="x").result["content"][0]["text"] == full_name.removeprefix("odd.")
    assert "x-mcp-header" not in json.dumps(tools), "nobody mirrors parameters in headers for us"


def test_hints_are_made_of_what_a_person_agreed_to(served: Daemon) -> None:
    tools = {tool["_meta"]["dev.paddock/name"]: tool for tool in all_of(Client(served), "tools/list", "tools")}
    assert tools["mail.look"]["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
    sends = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    assert tools["mail.send"]["annotations"] == sends
    adds = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
    assert tools["lists.words"]["annotations"] == adds | {"title": "The words"}
    assert tools["lists.words"]["title"] == "The words"
    assert tools["mail.send"]["_meta"]["dev.paddock/asks"] is True
    wrapped = tools["lists.words"]["outputSchema"]
    assert wrapped == {"type": "object", "properties": {"result": ARRAY}, "required": ["result"]}
    said = Client(served).call("lists__words").result
    assert (said["structuredContent"], said["content"][0]["text"]) == ({"result": ["one", "two"]}, '["one","two"]')


@pytest.mark.req("B-01", "resources")
def test_a_document_that_two_plugins_have_is_read_by_saying_whose(served: Daemon) -> None:
    client = Client(served)
    uris = {one["uri"] for one in all_of(client, "resources/list", "resources")}
    assert uris == {"paddock://butler/memo://one", "paddock://valet/memo://one"}
    templates = {one["uriTemplate"] for one in all_of(client, "resources/templates/list", "resourceTemplates")}
    assert templates == {"paddock://butler/memo://notes/{name}", "paddock://valet/memo://notes/{name}"}

    unclear = client.ask("resources/read", uri="memo://one").error
    assert "paddock://butler/memo://one or paddock://valet/memo://one" in unclear["message"]
    for uri in ("paddock://valet/memo://one", "paddock://butler/memo://notes/today"):
        (content,) = client.ask("resources/read", uri=uri).result["contents"]
        assert content == {"uri": uri, "text": f"read {uri.split('/', 3)[3]}"}
    for nothing in ("memo://nowhere", "paddock://nobody/memo://one", "paddock://mail/x"):
        missing = client.ask("resources/read", uri=nothing).error
        assert (missing["code"], missing["data"]["uri"]) == (-32002, nothing)
    assert client.ask("resources/read").error["code"] == -32602


@pytest.mark.req("B-01", "prompts")
def test_prompts_are_named_as_tools_are_and_keep_to_their_arguments(served: Daemon) -> None:
    client = Client(served)
    assert {one["name"] for one in all_of(client, "prompts/list", "prompts")} == {"butler__greet", "valet__greet"}
    filled = client.ask("prompts/get", name="valet__greet", arguments={"who": "Ann"}).result
    assert filled["messages"][0]["content"]["text"] == "Greet Ann"
    wrong = client.ask("prompts/get", name="valet__greet", arguments={"whom": "Ann"}).error
    assert wrong["code"] == -32602 and wrong["data"]["errors"]
    assert client.ask("prompts/get", name="greet").error["code"] == -32602
    empty = client.ask(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "valet__greet"},
        argument={"name": "who", "value": "A"},
    )
    assert empty.result == {"completion": {"values": []}}


def test_clients_hear_when_there_is_something_else_and_of_nothing_that_stayed(served: Daemon, home: Paddock) -> None:
    client = Client(served)
    listens = asking("subscriptions/listen", 4, notifications={"toolsListChanged": True})
    with (
        client.following() as told,
        listening(served, "POST", stamped(listens), **headers_of(listens)) as news,
    ):
        next(news)
        for change, body in (("disable", None), ("enable", {"start": False})):  # mostly both before the first is told
            assert send(served, "POST", body, f"/api/v1/plugins/mail/{change}", accept="application/json").status == 200
        for listener in (told, news):
            assert next(listener)["data"]["method"] == "notifications/tools/list_changed"

        home.quickly("plugin", "disable", "mail")
        assert next(told)["data"] == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {},
        }
        heard = next(news)["data"]
        assert heard["method"] == "notifications/tools/list_changed"
        assert heard["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 4}
        assert "write" not in {tool["name"] for tool in all_of(client, "tools/list", "tools")}

        client.call("butler__grow")
        # A machine that is busy between the first two changes has each of them told.
        methods = (event["data"]["method"] for event in islice(told, 2))
        assert "notifications/resources/list_changed" in methods
    # What came while nobody listened is told to who comes next.
    home.quickly("plugin", "enable", "mail")
    with client.following() as told:
        assert next(told)["data"]["method"] == "notifications/tools/list_changed"

"""A server that lists nonsense hurts nobody but itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mcp_server.speaking import Client

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import native, write_file

SERVER = r"""
import json, sys
odd = [%s]
lists = {
    "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "%s://a", "name": "a"}, *odd]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "%s://{b}", "name": "b"}, *odd]},
    "prompts/list": {"prompts": [{"name": "c"}, *odd]},
}
for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    greeting = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "x", "version": "1"},
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}
    result = greeting if heard["method"] == "initialize" else lists.get(heard["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": result}), flush=True)
"""


@pytest.mark.req("B-01", "resources")
def test_a_server_that_lists_no_objects_hides_nothing_of_its_neighbour(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    for name, odd in (("good", ""), ("odd", '"boom", 3, None, []')):
        root = tmp_path / name
        native(
            root, name, runtime={"command": ["python3", "./main.py"], "protocol": "mcp"}, capabilities=[], tools=None
        )
        write_file(root / "main.py", SERVER % (odd, name, name))
        paddock.quickly("plugin", "install", root, "--yes")
        paddock.quickly("plugin", "enable", name)
    with daemon(paddock) as served:
        client = Client(served)
        resources = client.ask("resources/list").result["resources"]
        templates = client.ask("resources/templates/list").result["resourceTemplates"]
        prompts = client.ask("prompts/list").result["prompts"]
        listed = paddock("plugin", "resources", "odd", "--json").json
    assert {one["uri"] for one in resources} == {"good://a", "odd://a"}
    assert {one["uriTemplate"] for one in templates} == {"good://{b}", "odd://{b}"}
    assert {one["name"] for one in prompts} == {"good__c", "odd__c"}
    assert [one["uri"] for one in listed["resources"]] == ["odd://a"]

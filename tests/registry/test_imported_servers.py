"""Servers of the registries, taken over from a client's settings and reached through one endpoint; and their words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_proofs.pasted import client_of, said, with_paddock_on_the_path
from tests.registry.conftest import Shop

from fixtures.commands import Paddock
from fixtures.packages import write_json

pytestmark = pytest.mark.registry

DESKTOP = {
    "mcpServers": {
        "time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone", "UTC"]},
        "thinking": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-sequential-thinking"]},
    },
    "globalShortcut": "",
}


async def test_a_claude_desktop_with_two_servers_reaches_both_through_what_the_import_wrote(
    shop: Shop, tmp_path: Path
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    paddock = shop.paddock
    file = write_json(tmp_path / "claude_desktop_config.json", DESKTOP)
    paddock.quickly("import", file, "--replace", "--yes")
    settings = file.read_text()
    assert list(json.loads(settings)["mcpServers"]) == ["paddock"]

    async with client_of(settings, "mcpServers", with_paddock_on_the_path(tmp_path)) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"time__convert_time", "thinking__sequentialthinking"} <= tools
        noon = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
        assert "T08:30:00" in said(await client.call_tool("time__convert_time", noon))
        thought = {"thought": "Peat", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
        assert "thoughtNumber" in said(await client.call_tool("thinking__sequentialthinking", thought))


PYTHON_SERVERS = ("pypi:mcp-server-time", "pypi:mcp-server-fetch")
NODE_SERVERS = ("npm:@modelcontextprotocol/server-everything", "npm:@modelcontextprotocol/server-memory")


def test_of_the_words_of_ordinary_servers_none_is_flagged(shop: Shop) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    names = [_installed(shop.paddock, source) for source in (*PYTHON_SERVERS, *NODE_SERVERS)]
    listed = {name: shop.paddock("plugin", "tools", name, "--json").json for name in names}

    tools = [tool for one in listed.values() for tool in one["tools"]]
    assert len(tools) >= 20
    assert [hint for one in (*listed.values(), *tools) for hint in one["hints"]] == []


def _installed(paddock: Paddock, source: str) -> Any:
    name = paddock.quickly("plugin", "install", source, "--yes", "--json").json["name"]
    paddock.quickly("plugin", "enable", name)
    return name

"""Two servers of a client's settings, taken over and handed back: the client reaches both through one endpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.mcp.playing import SERVER, site_packages
from tests.mcp_proofs.pasted import client_of, said, with_paddock_on_the_path

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon
from fixtures.packages import write_json
from fixtures.policies import ask_about_nothing_unknown

SETTINGS = {"claude_desktop_config.json": "mcpServers", ".vscode/mcp.json": "servers"}


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    (tmp_path / "home").mkdir()
    return Paddock(tmp_path / "home")


def imported(paddock: Paddock, file: Path, key: str) -> str:
    """Two servers on the official library, taken over from a client's settings and allowed to read it.

    What the settings are after that.
    """
    site, script = site_packages(), str(SERVER)
    ask_about_nothing_unknown(paddock.home)

    def server(revision: str) -> dict[str, Any]:
        return {"command": "python3", "args": [script, "stdio", revision], "env": {"PYTHONPATH": site}}

    write_json(file, {key: {"First": server("2025-06-18"), "Second": server("2025-11-25")}})
    for name in ("First", "Second"):
        grants = ("--capability", f"read:fs:{site}", "--capability", f"read:fs:{script}")
        paddock.quickly("import", file, "--only", name, *grants, "--replace", "--yes")
    return file.read_text()


@pytest.mark.req("B-02", "import")
@pytest.mark.parametrize(
    "name", ["claude_desktop_config.json", pytest.param(".vscode/mcp.json", marks=pytest.mark.slow)]
)
async def test_a_client_that_starts_what_stands_in_its_settings_calls_both_servers(
    name: str, paddock: Paddock, tmp_path: Path
) -> None:
    key = SETTINGS[name]
    settings = imported(paddock, tmp_path / name, key)
    assert list(json.loads(settings)[key]) == ["paddock"]

    async with client_of(settings, key, with_paddock_on_the_path(tmp_path)) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"first__echo", "second__echo"} <= tools
        assert said(await client.call_tool("first__echo", {"text": "one"})) == "one"
        assert said(await client.call_tool("second__echo", {"text": "two"})) == "two"

    calls = paddock.quickly("ledger", "tail", "--type", "call.ended", "--json").json["entries"]
    assert {entry["plugin"] for entry in calls} == {"first", "second"}


@pytest.mark.slow
async def test_the_same_over_http_while_a_daemon_runs(paddock: Paddock, tmp_path: Path) -> None:
    imported(paddock, tmp_path / "mcp.json", "mcpServers")
    paddock.quickly("user", "add", "ann")
    key = paddock.quickly("apikey", "add", "ann", "--json").json["token"]
    with daemon(paddock) as served:
        host, port = served.tcp
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE) as http,
            Client(streamable_http_client(f"http://{host}:{port}/mcp", http_client=http), mode="legacy") as client,
        ):
            assert len((await client.list_tools()).tools) > 2  # of servers that may never have run before
            assert said(await client.call_tool("first__echo", {"text": "one"})) == "one"
            assert said(await client.call_tool("second__echo", {"text": "two"})) == "two"

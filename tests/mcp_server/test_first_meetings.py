"""Servers that never ran: a client reaches their tools all the same."""

from __future__ import annotations

from pathlib import Path

from tests.mcp_server.speaking import Client

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import daemon


def test_a_tool_of_a_server_that_never_ran_can_be_called_before_anything_is_listed(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", butler(tmp_path / "butler"), "--yes")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "zoe", "--tenant", "acme")
    # Those of other tenants start with the first call, so that nobody knows yet what it offers.
    paddock.quickly("plugin", "enable", "butler", "--tenant", "acme", "--yes")
    key = paddock.quickly("apikey", "add", "zoe", "--tenant", "acme", "--json").json["token"]
    with daemon(paddock) as started:
        zoe = Client(started, more={"authorization": f"Bearer {key}"})
        assert zoe.call("butler__grow").result["structuredContent"] == {"done": "grow"}
        assert zoe.call("butler__shrink").error["message"] == "Unknown tool: butler__shrink"

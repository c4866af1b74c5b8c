"""The official client, in front of servers that mark their tools: what it is given to show and to decide by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.mcp_proofs.test_python_client import connected, over_stdio

from fixtures.commands import Paddock
from fixtures.marked import marked


async def hints(home: Paddock) -> dict[str, tuple[bool | None, bool | None]]:
    """Each tool's hints whether it reads and whether it destroys."""
    async with connected(over_stdio(home), "auto") as client:
        tools: list[Any] = (await client.list_tools()).tools
    return {tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint) for tool in tools}


async def test_the_official_client_never_gets_the_opposite_of_what_a_server_says(tmp_path: Path) -> None:
    home = Paddock(tmp_path / "home")
    (tmp_path / "notes").mkdir()
    writing = f"write:fs:{tmp_path / 'notes'}"
    keeper = marked(tmp_path / "keeper", "keeper", capabilities=[writing])
    for package, granted in ((marked(tmp_path / "caged", "caged"), ()), (keeper, ("--grant", writing))):
        home.quickly("plugin", "install", package, "--yes", *granted)
        home.quickly("plugin", "enable", package.name)
        home.quickly("plugin", "tools", package.name)

    told = await hints(home)
    assert (told["caged__delete"], told["caged__look"]) == ((False, True), (True, None))
    assert (told["keeper__delete"], told["keeper__look"]) == ((False, True), (None, None))

    home.quickly("plugin", "trust", "keeper", "--reads", "--yes")
    assert (await hints(home))["keeper__look"] == (True, None)

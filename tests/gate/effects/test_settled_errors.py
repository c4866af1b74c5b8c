"""Failures of an MCP server's tools are in doubt, unless the tool only reads by a trusted mark, says that nothing was
done, or somebody settled that its errors mean that."""

from __future__ import annotations

import json

import pytest

from fixtures.commands import Paddock
from fixtures.marked import marked
from fixtures.policies import ask_about_nothing_unknown

FAILURES = ("error", "protocol", "nothing done", "exit")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Paddock:
    folder = tmp_path_factory.mktemp("settled")
    paddock = Paddock(folder / "home")
    ask_about_nothing_unknown(paddock.home)
    (folder / "notes").mkdir()
    package = marked(folder / "keeper", "keeper", capabilities=[f"write:fs:{folder / 'notes'}"])
    paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("plugin", "enable", "keeper", "--trust-reads")
    return paddock


def in_doubt(paddock: Paddock, tool: str) -> set[str]:
    """The ways to fail that leave an outcome unknown."""
    doubted: set[str] = set()
    for fail in FAILURES:
        failed = paddock.quickly(
            "call", f"keeper.{tool}", "--params", json.dumps({"fail": fail}), "--json", code=7
        ).error
        if failed["details"].get("effect") == "in_doubt":
            doubted.add(fail)
    return doubted


def test_which_failures_leave_an_outcome_unknown_depends_on_what_is_known_of_the_tool(home: Paddock) -> None:
    assert in_doubt(home, "look") == set(), "its mark is trusted since it was enabled"
    assert in_doubt(home, "delete") == {"error", "protocol", "exit"}

    home.quickly("plugin", "trust", "keeper", "delete", "--errors", "--yes")
    assert in_doubt(home, "delete") == {"exit"}, "a server that dies says nothing"
    home.quickly("plugin", "trust", "keeper", "delete", "--errors", "--off")
    assert "error" in in_doubt(home, "delete")

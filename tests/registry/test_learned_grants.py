"""Servers that nobody here wrote, tried in learning cages: one command, no grant too many, and they work afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.registry.conftest import Server, Shop

from fixtures.packages import write_json

OLDER = ("--with", "mcp<2")  # written for an older library of the protocol
pytestmark = [pytest.mark.registry, pytest.mark.slow]


def learn(shop: Shop, source: str, *options: object, more: tuple[str, ...] = ()) -> tuple[Server, list[str]]:
    """Install a server without any grant, and let it propose its own; gives what it was granted."""
    name = shop.paddock.quickly("plugin", "install", source, *options, "--yes", "--json").json["name"]
    tried = shop.paddock.quickly("plugin", "try", name, "--yes", "--json", *more).json
    assert tried["answers"]
    assert tried["tools"] > 0
    shop.paddock.quickly("plugin", "enable", name)
    listed = shop.paddock.quickly("plugin", "show", name, "--json").json["capabilities"]
    return Server(shop.paddock, name), [one for one in listed if one != "net:[]"]


def assert_each_is_needed(
    shop: Shop,
    server: Server,
    source: str,
    options: tuple[object, ...],
    granted: list[str],
    tool: str,
    **arguments: Any,
) -> None:
    """Without any one of its grants the server does not do its work."""
    for missing in granted:
        shop.paddock.quickly("plugin", "remove", server.name, "--yes")
        others = [word for one in granted if one != missing for word in ("--capability", one)]
        shop.paddock.quickly("plugin", "install", source, *options, *others, "--yes")
        shop.paddock.start("plugin", "enable", server.name).communicate(timeout=60)
        assert server.call(tool, code=7, **arguments).error["code"] != ""


@pytest.mark.parametrize(
    ("source", "tool", "arguments"),
    [
        ("pypi:mcp-server-time", "get_current_time", {"timezone": "Asia/Tokyo"}),
        ("npm:@modelcontextprotocol/server-everything", "echo", {"message": "hello"}),
    ],
)
def test_a_server_that_needs_nothing_is_granted_nothing(
    shop: Shop, source: str, tool: str, arguments: dict[str, Any]
) -> None:
    server, granted = learn(shop, source)
    assert granted == []
    assert server.said(tool, **arguments)


def test_fetch_starts_without_a_network_and_is_granted_none(shop: Shop) -> None:
    _, granted = learn(shop, "pypi:mcp-server-fetch")
    assert granted == []


@pytest.mark.req("B-21", "the smallest grants")
def test_filesystem_is_granted_the_folder_that_its_arguments_name(shop: Shop, granted: Path) -> None:
    (granted / "letter.txt").write_text("Dear Ada")
    source, options = "npm:@modelcontextprotocol/server-filesystem", ("--arg", granted)
    server, found = learn(shop, source, *options)
    assert found == [f"read:fs:{granted}"]
    assert server.said("read_text_file", path=str(granted / "letter.txt")) == "Dear Ada"
    assert_each_is_needed(shop, server, source, options, found, "read_text_file", path=str(granted / "letter.txt"))


def test_filesystem_may_change_files_where_a_person_says_so(shop: Shop, granted: Path) -> None:
    source = "npm:@modelcontextprotocol/server-filesystem"
    server, found = learn(shop, source, "--arg", granted, more=("--write",))
    assert found == [f"write:fs:{granted}"]
    server.call("write_file", path=str(granted / "answer.txt"), content="Dear Bob")
    assert (granted / "answer.txt").read_text() == "Dear Bob"


def test_memory_is_granted_the_folder_of_the_file_that_its_variable_names(shop: Shop, granted: Path) -> None:
    file = granted / "memory.jsonl"
    source, options = "npm:@modelcontextprotocol/server-memory", ("--env", f"MEMORY_FILE_PATH={file}")
    server, found = learn(shop, source, *options)
    assert found == [f"write:fs:{granted}"]
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes peat"]}
    server.call("create_entities", entities=[ada])
    assert "likes peat" in file.read_text()
    assert_each_is_needed(shop, server, source, options, found, "create_entities", entities=[ada | {"name": "Bob"}])


def test_sqlite_is_granted_the_folder_of_its_database(shop: Shop, granted: Path) -> None:
    file = granted / "notes.db"
    source, options = "pypi:mcp-server-sqlite", (*OLDER, "--arg=--db-path", "--arg", file)
    server, found = learn(shop, source, *options)
    assert found == [f"write:fs:{granted}"]
    server.call("create_table", query="CREATE TABLE notes (text)")
    assert file.is_file()
    assert_each_is_needed(shop, server, source, options, found, "list_tables")


def test_git_is_granted_its_repository_and_the_program(shop: Shop, granted: Path) -> None:
    subprocess.run(["git", "-C", str(granted), "init", "-q"], check=True, timeout=30)
    source, options = "pypi:mcp-server-git", ("--arg=--repository", "--arg", granted)
    server, found = learn(shop, source, *options, more=("--write",))
    assert sorted(found) == ["exec:git:/", f"write:fs:{granted}"]
    assert "No commits yet" in server.said("git_status", repo_path=str(granted))
    assert_each_is_needed(shop, server, source, options, found, "git_status", repo_path=str(granted))


def test_a_server_in_a_virtual_environment_is_granted_that_and_its_interpreter(shop: Shop, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
    pip = [environment / "bin/pip", "install", "-q", "mcp-server-time"]
    subprocess.run(pip, check=True, timeout=300)
    entry = {"command": str(environment / "bin/mcp-server-time"), "args": []}
    file = write_json(tmp_path / "mcp.json", {"mcpServers": {"time": entry}})
    shop.paddock.quickly("import", file, "--yes")
    tried = shop.paddock.quickly("plugin", "try", "time", "--yes", "--json").json

    assert tried["answers"]
    listed = shop.paddock.quickly("plugin", "show", "time", "--json").json["capabilities"]
    base = Path(sys.base_prefix)
    places = {f"read:fs:{environment}", f"read:fs:{base}"}
    assert {one for one in listed if one != "net:[]"} <= places
    shop.paddock.quickly("plugin", "enable", "time")
    assert "T" in Server(shop.paddock, "time").said("get_current_time", timezone="UTC")

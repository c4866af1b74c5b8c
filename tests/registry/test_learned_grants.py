"""Servers that nobody here wrote, tried in learning cages: one command, no grant too many, and they work afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.registry.conftest import Server, Shop
from tests.registry.public_internet import NEEDED, connected

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
    return Server(shop.paddock, name), granted_to(shop, name)


def granted_to(shop: Shop, name: str) -> list[str]:
    listed = shop.paddock.quickly("plugin", "show", name, "--json").json["capabilities"]
    return [one for one in listed if one != "net:[]"]


def from_registry(shop: Shop, source: str, *options: object) -> Callable[[list[str]], object]:
    """Installs a server with these grants."""

    def install(grants: list[str]) -> object:
        words = [word for one in grants for word in ("--capability", one)]
        return shop.paddock.quickly("plugin", "install", source, *options, *words, "--yes")

    return install


def assert_each_is_needed(
    shop: Shop,
    server: Server,
    install: Callable[[list[str]], object],
    granted: list[str],
    tool: str,
    **arguments: Any,
) -> None:
    """Without any one of its grants the server does not do its work, and with all of them again it does."""
    for missing in [*granted, None]:
        shop.paddock.quickly("plugin", "remove", server.name, "--yes")
        install([one for one in granted if one != missing])
        with shop.paddock.start("plugin", "enable", server.name) as enabling:
            enabling.communicate(timeout=60)
        if missing is None:
            server.call(tool, **arguments)
        elif enabling.returncode == 0:  # else it does not even start, and stays disabled
            assert server.call(tool, code=7, **arguments).error["code"] != "", missing


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


@pytest.mark.skipif(os.geteuid() != 0 or not all(map(shutil.which, NEEDED)), reason="needs root and namespaces")
def test_fetch_is_proposed_the_hosts_that_its_tool_takes_and_reaches_what_a_person_grants(
    shop: Shop, tmp_path: Path
) -> None:
    name = shop.paddock.quickly("plugin", "install", "pypi:mcp-server-fetch", "--yes", "--json").json["name"]
    with connected(shop.paddock, tmp_path) as paddock:
        server = Server(paddock, name)
        tried = paddock("plugin", "try", name, "--yes", "--json").json
        assert [(one["capability"], one["selected"]) for one in tried["proposals"]] == [("net:*", False)]
        assert "its tool fetch takes any URL, as url" in tried["proposals"][0]["reason"]
        assert granted_to(shop, name) == []
        paddock("plugin", "enable", name)
        refused = server.call("fetch", url="http://news.example/", code=7).error
        assert "net:news.example:80, or net:*" in refused["hint"]

        # One site: what the error says, and nothing else.
        paddock("plugin", "try", name, "--grant", "net:news.example:80", "--yes")
        assert granted_to(shop, name) == ["net:news.example:80"]
        assert "A bale of peat, of news.example" in server.said("fetch", url="http://news.example/")
        assert "net:other.example:80" in server.call("fetch", url="http://other.example/", code=7).error["hint"]

        # Every public site, and not what a public name hides.
        paddock("plugin", "try", name, "--grant", "net:*", "--yes")
        assert "A bale of peat, of other.example" in server.said("fetch", url="http://other.example/")
        server.call("fetch", url="http://inside.example/", code=7)
        denied = paddock("ledger", "tail", "--type", "plugin.net_denied", "--json").out
        assert "net.private_address" in denied


@pytest.mark.req("B-21", "the smallest grants")
def test_filesystem_is_granted_the_folder_that_its_arguments_name(shop: Shop, granted: Path) -> None:
    (granted / "letter.txt").write_text("Dear Ada")
    source, options = "npm:@modelcontextprotocol/server-filesystem", ("--arg", granted)
    server, found = learn(shop, source, *options)
    assert found == [f"read:fs:{granted}"]
    letter: dict[str, Any] = {"path": str(granted / "letter.txt")}
    assert server.said("read_text_file", **letter) == "Dear Ada"
    refused = server.call("write_file", **letter, content="Dear Bob", code=7).error
    assert f"grant it write:fs:{granted}, and" in refused["hint"]
    assert_each_is_needed(shop, server, from_registry(shop, source, *options), found, "read_text_file", **letter)


def test_filesystem_may_change_files_where_a_person_says_so(shop: Shop, granted: Path) -> None:
    source, options = "npm:@modelcontextprotocol/server-filesystem", ("--arg", granted)
    server, found = learn(shop, source, *options, more=("--write",))
    assert found == [f"write:fs:{granted}"]
    letter: dict[str, Any] = {"path": str(granted / "answer.txt"), "content": "Dear Bob"}
    server.call("write_file", **letter)
    assert (granted / "answer.txt").read_text() == "Dear Bob"
    assert_each_is_needed(shop, server, from_registry(shop, source, *options), found, "write_file", **letter)


def test_memory_is_granted_the_folder_of_the_file_that_its_variable_names(shop: Shop, granted: Path) -> None:
    file = granted / "memory.jsonl"
    source, options = "npm:@modelcontextprotocol/server-memory", ("--env", f"MEMORY_FILE_PATH={file}")
    server, found = learn(shop, source, *options)
    assert found == [f"write:fs:{granted}"]
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes peat"]}
    server.call("create_entities", entities=[ada])
    assert "likes peat" in file.read_text()
    assert "likes peat" in server.said("read_graph")
    bob = [ada | {"name": "Bob"}]
    assert_each_is_needed(shop, server, from_registry(shop, source, *options), found, "create_entities", entities=bob)


def test_sqlite_is_granted_the_folder_of_its_database(shop: Shop, granted: Path) -> None:
    file = granted / "notes.db"
    source, options = "pypi:mcp-server-sqlite", (*OLDER, "--arg=--db-path", "--arg", file)
    server, found = learn(shop, source, *options)
    assert found == [f"write:fs:{granted}"]
    server.call("create_table", query="CREATE TABLE notes (text)")
    server.call("write_query", query="INSERT INTO notes VALUES ('peat')")
    assert file.is_file()
    assert "peat" in server.said("read_query", query="SELECT text FROM notes")
    assert_each_is_needed(shop, server, from_registry(shop, source, *options), found, "list_tables")


def test_git_is_granted_its_repository_and_the_program(shop: Shop, granted: Path) -> None:
    for words in (["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.com"]):
        subprocess.run(["git", "-C", str(granted), *words], check=True, timeout=30)
    source, options = "pypi:mcp-server-git", ("--arg=--repository", "--arg", granted)
    server, found = learn(shop, source, *options, more=("--write",))
    assert sorted(found) == ["exec:git:/", f"write:fs:{granted}"]
    repository: dict[str, Any] = {"repo_path": str(granted)}
    assert "No commits yet" in server.said("git_status", **repository)
    (granted / "letter.txt").write_text("Dear Bob")
    server.call("git_add", **repository, files=["letter.txt"])
    server.call("git_commit", **repository, message="First words")
    assert "First words" in server.said("git_log", **repository)
    assert_each_is_needed(shop, server, from_registry(shop, source, *options), found, "git_status", **repository)


def test_a_server_in_a_virtual_environment_is_granted_that_and_its_interpreter(shop: Shop, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
    pip = [environment / "bin/pip", "install", "-q", "mcp-server-time"]
    subprocess.run(pip, check=True, timeout=300)
    entry = {"command": str(environment / "bin/mcp-server-time"), "args": []}
    file = write_json(tmp_path / "mcp.json", {"mcpServers": {"time": entry}})

    def take_over(grants: list[str]) -> object:
        words = [word for one in grants for word in ("--capability", one)]
        return shop.paddock.quickly("import", file, *words, "--yes")

    take_over([])
    assert shop.paddock.quickly("plugin", "try", "time", "--yes", "--json").json["answers"]
    found = granted_to(shop, "time")
    assert set(found) <= {f"read:fs:{environment}", f"read:fs:{Path(sys.base_prefix)}"}
    shop.paddock.quickly("plugin", "enable", "time")
    server = Server(shop.paddock, "time")
    assert "T" in server.said("get_current_time", timezone="UTC")
    assert_each_is_needed(shop, server, take_over, found, "get_current_time", timezone="UTC")

"""`paddock import` without a file: the servers of the clients on this machine, imported, replaced and put back."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.packages import answering, write_file, write_json

PROGRAM = str(Path(sys.executable).parent / "paddock")
WEATHER = answering(env={"WEATHER_KEY": "canary-7b1f0e2d"})
ARGUMENTS = json.dumps(WEATHER["args"])
ELSEWHERE = "http://127.0.0.1:9/mcp"  # nothing answers there
ZED = f"""// Mine.
{{
  "theme": "One Dark", // at night
  "context_servers": {{
    "notes": {{"source": "custom", "command": "python3", "args": {ARGUMENTS}}}, // my notes
    "theirs": {{"source": "extension", "settings": {{}}}},
  }},
}}
"""
CODEX = f"""model = "o3"  # mine

[mcp_servers.docs]
command = "python3"
args = {ARGUMENTS}

[projects."/home/ann"]
trust_level = "trusted"
"""


@pytest.fixture
def clients(paddock: Paddock) -> Path:
    """A home directory with one client of each kind; gives that directory."""
    home = paddock.home.parent
    write_json(home / ".config/Claude/claude_desktop_config.json", {"mcpServers": {"weather": WEATHER}, "theme": "x"})
    project = {"mcpServers": {"git": answering()}}
    write_json(home / ".claude.json", {"mcpServers": {"weather": WEATHER}, "projects": {"/work": project}})
    write_json(home / ".cursor/mcp.json", {"mcpServers": {"tickets": answering()}})
    build = f'{{"servers": {{"build": {{"command": "python3", "args": {ARGUMENTS}}}}}}} // all\n'
    write_file(home / ".config/Code/User/mcp.json", build)
    write_file(home / ".config/Code/User/settings.json", '{"editor.tabSize": 2, /* no servers */}\n')
    surf = {"surf": {"serverUrl": ELSEWHERE}, "board": answering()}
    write_json(home / ".codeium/windsurf/mcp_config.json", {"mcpServers": surf})
    write_file(home / ".config/zed/settings.json", ZED)
    write_file(home / ".codex/config.toml", CODEX)
    gem = {"gem": {"httpUrl": ELSEWHERE}, "stone": answering()}
    write_json(home / ".gemini/settings.json", {"mcpServers": gem})
    return home


def found(paddock: Paddock, *options: str) -> dict[str, dict[str, Any]]:
    return {row["server"]: row for row in paddock.quickly("import", *options, "--json").json["servers"]}


@pytest.mark.req("B-02", "import")
def test_the_servers_of_every_client_are_found_with_their_commands_and_whether_they_are_imported(
    paddock: Paddock, clients: Path
) -> None:
    servers = found(paddock)
    where = {name: [one["client"] for one in row["clients"]] for name, row in servers.items()}
    assert where == {
        "weather": ["claude-desktop", "claude-code"],
        "git": ["claude-code"],
        "tickets": ["cursor"],
        "build": ["vscode"],
        "surf": ["windsurf"],
        "board": ["windsurf"],
        "notes": ["zed"],
        "docs": ["codex"],
        "gem": ["gemini"],
        "stone": ["gemini"],
    }
    assert servers["weather"]["command"].startswith("python3 -c ")
    assert servers["surf"]["command"] == ELSEWHERE
    listed = paddock.quickly("import")
    assert "canary" not in listed.out + listed.err + json.dumps(servers)
    assert {row["state"] for row in servers.values()} == {"new"}

    paddock.quickly("import", "git", "docs", "--yes")
    write_json(clients / ".claude.json", {"mcpServers": {"git": {"command": "other-git"}}})
    states = {name: row["state"] for name, row in found(paddock).items()}
    assert (states["docs"], states["git"], states["weather"]) == ("imported", "changed", "new")
    assert list(found(paddock, "--client", "zed", "--client", "cursor")) == ["tickets", "notes"]


def test_mistakes_of_all_files_are_told_at_once_and_hide_no_other_server(paddock: Paddock, clients: Path) -> None:
    write_file(clients / ".cursor/mcp.json", '{"mcpServers": {"a": }')
    write_file(clients / ".codex/config.toml", "[mcp_servers.docs]\nargs = 5\n")
    write_file(clients / ".gemini/settings.json", '{"mcpServers": {}}' + " " * (9 << 20))
    (clients / ".config/zed/settings.json").unlink()
    (clients / ".config/zed/settings.json").mkdir()

    said = paddock.quickly("import", "--json").json
    assert [row["server"] for row in said["servers"] if row["state"] == "invalid"] == ["docs"]
    docs = next(row for row in said["servers"] if row["server"] == "docs")
    assert {"mcp_servers.docs", "mcp_servers.docs.args"} == {problem["path"] for problem in docs["errors"]}
    messages = " ".join(error["message"] for error in said["unreadable"])
    assert all(name in messages for name in (".cursor/mcp.json", ".gemini/settings.json", "zed/settings.json"))
    assert "weather" in {row["server"] for row in said["servers"]}


def test_a_person_chooses_by_number_and_name_and_an_unclear_answer_is_asked_again(
    paddock: Paddock, clients: Path
) -> None:
    write_json(clients / ".cursor/mcp.json", {"mcpServers": {"weather": {"command": "other"}}})
    screen = paddock.on_terminal("import", "--yes", prompt=": ", answers=["weather nothing", "weather", "1, git"])

    assert "has no server nothing" in screen
    assert "would become plugins of the same name: weather of Claude Desktop; weather of Cursor" in screen
    assert sorted(paddock.listed()) == ["git", "weather"]
    none = paddock.on_terminal("import", prompt="as it is: ", answers=[""])
    assert "installed" not in none
    assert paddock.quickly("import", "weather", "--yes", "--json", code=1).error["code"] == "import.ambiguous"
    assert paddock.quickly("import", "--client", "emacs", code=2).err


@pytest.mark.req("B-02", "import")
def test_replace_writes_an_entry_that_starts_into_every_client_and_undo_puts_back_every_byte(
    paddock: Paddock, clients: Path
) -> None:
    files = [path for path in clients.rglob("*") if path.is_file() and paddock.home not in path.parents]
    (clients / ".claude.json").chmod(0o600)
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in files}

    done = paddock.quickly("import", "--all", "--replace", "--yes", "--json", code=7)
    said = done.json
    assert {one["action"] for one in said["imported"]} == {"installed"}
    assert [one["server"] for one in said["imported"] if not one["taken_over"]] == ["surf", "gem"]
    assert "surf: installed; it does not answer, and stays with your client" in done.err
    assert len(said["clients"]) == 8
    surf = json.loads((clients / ".codeium/windsurf/mcp_config.json").read_text())["mcpServers"]
    assert surf["surf"] == {"serverUrl": ELSEWHERE} and sorted(surf) == ["paddock", "surf"]
    started = {"command": PROGRAM, "args": ["mcp"], "env": {"PADDOCK_HOME": str(paddock.home)}}
    claude = json.loads((clients / ".claude.json").read_text())
    assert claude["mcpServers"] == claude["projects"]["/work"]["mcpServers"] == {"paddock": started}
    codex = tomllib.loads((clients / ".codex/config.toml").read_text())
    assert codex["mcp_servers"] == {"paddock": started} and codex["projects"]
    zed = (clients / ".config/zed/settings.json").read_text()
    assert all(text in zed for text in ("// Mine.", "// at night", "// my notes", '"theirs"', '"source": "custom"'))
    assert "python3" not in zed
    assert (clients / ".claude.json").stat().st_mode & 0o777 == 0o600
    assert {name: row["state"] for name, row in found(paddock).items()} == {"surf": "imported", "gem": "imported"}

    undone = paddock.quickly("import", "--undo", "--json").json["undone"]
    assert {one["outcome"] for one in undone} == {"restored"}
    assert {path: (path.read_bytes(), path.stat().st_mode) for path in files} == before
    assert not list(clients.rglob("*.before-paddock*")), "the copies with the keys are gone"
    assert paddock.quickly("import", "--undo", "--json", code=3).error["code"] == "import.nothing_to_undo"


def test_a_server_that_may_write_nothing_and_whose_tools_change_things_stays_with_its_client(
    paddock: Paddock, source: Path
) -> None:
    script = answering()["args"][1].replace('"greet"', '"create_entities"').replace("readOnlyHint", "destructiveHint")
    file = write_json(source / "mcp.json", {"mcpServers": {"memory": {"command": "python3", "args": ["-c", script]}}})
    before = file.read_bytes()
    held = paddock.quickly("import", file, "--all", "--replace", "--yes", code=7)
    assert "memory answers, but may write no file: create_entities would fail, or forget" in held.err
    assert "set the variable or argument for its data to config:/FILE" in held.err
    grant = ("--only", "memory", "--capability", "write:fs:config:/", "--replace")
    assert f"paddock import {file} {' '.join(grant[:2])} {' '.join(grant[2:])}" in held.err
    assert "memory stays with your client" in held.err
    assert f"paddock import {file} --only memory --replace --no-try" in held.err
    assert file.read_bytes() == before
    assert not paddock.quickly("plugin", "show", "memory", "--json").json["enabled"]

    entry = {"command": "python3", "args": ["-c", script], "env": {"MEMORY_FILE_PATH": "config:/memory.jsonl"}}
    write_json(file, {"mcpServers": {"memory": entry, "other": entry}})
    paddock.quickly("import", file, *grant, "--yes")
    assert sorted(json.loads(file.read_text())["mcpServers"]) == ["other", "paddock"]
    paddock.quickly("import", file, "--only", "other", "--replace", "--no-try", "--yes")
    assert list(json.loads(file.read_text())["mcpServers"]) == ["paddock"], "a person knows that it saves nothing"


@pytest.mark.slow
def test_the_entry_starts_paddock_with_the_few_variables_that_clients_pass_on(paddock: Paddock, clients: Path) -> None:
    paddock.quickly("import", "git", "--replace", "--yes")
    entry = json.loads((clients / ".claude.json").read_text())["projects"]["/work"]["mcpServers"]["paddock"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})

    said = subprocess.run(
        [entry["command"], *entry["args"]],
        input=f"{request}\n",
        env={"PATH": "/usr/bin:/bin", "HOME": str(clients), **entry["env"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(said.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "paddock"


def test_undo_keeps_what_a_client_wrote_meanwhile_and_refuses_where_its_servers_changed(
    paddock: Paddock, clients: Path
) -> None:
    claude, desktop = clients / ".claude.json", clients / ".config/Claude/claude_desktop_config.json"
    before = json.loads(claude.read_text())
    paddock.quickly("import", "weather", "--replace", "--yes")
    write_json(claude, json.loads(claude.read_text()) | {"numStartups": 7})
    changed = json.loads(desktop.read_text())
    changed["mcpServers"]["mine"] = {"command": "mine"}
    write_json(desktop, changed)

    said = paddock.quickly("import", "--undo", "--json", code=1)
    assert said.error["code"] == "import.changed_since"
    assert json.loads(claude.read_text()) == before | {"numStartups": 7}
    assert json.loads(desktop.read_text()) == changed
    assert desktop.with_name(f"{desktop.name}.before-paddock").is_file()

    del changed["mcpServers"]["mine"]
    write_json(desktop, changed)
    assert paddock.quickly("import", desktop, "--undo", "--json").json["undone"][0]["outcome"] == "restored"
    assert json.loads(desktop.read_text())["mcpServers"] == {"weather": WEATHER}


def test_what_was_replaced_twice_is_put_back_newest_first_and_nothing_behind_one_that_cannot_be(
    paddock: Paddock, clients: Path
) -> None:
    desktop = clients / ".config/Claude/claude_desktop_config.json"
    before = json.loads(desktop.read_text())

    def with_server(name: str) -> None:
        settings = json.loads(desktop.read_text())
        write_json(desktop, settings | {"mcpServers": settings["mcpServers"] | {name: answering()}})

    def without_server(name: str) -> None:
        settings = json.loads(desktop.read_text())
        del settings["mcpServers"][name]
        write_json(desktop, settings)

    def undone(code: int = 1) -> list[str]:
        told = paddock.quickly("import", desktop, "--undo", "--json", code=code).json["undone"]
        return [one["error"]["code"] if "error" in one else one["servers"] for one in told]

    paddock.quickly("import", desktop, "--replace", "--yes")
    with_server("mine")
    paddock.quickly("import", desktop, "--replace", "--yes")
    with_server("later")
    assert undone() == ["import.changed_since"]
    without_server("later")
    # The one before it was made in a file without `mine`, which nobody asked to take out again.
    assert undone() == [["mine"], "import.changed_since"]
    without_server("mine")
    assert undone(code=0) == [["weather"]]
    assert json.loads(desktop.read_text()) == before


def test_a_replacement_that_was_killed_before_the_file_was_written_is_undone_without_harm(
    paddock: Paddock, clients: Path
) -> None:
    file = clients / ".cursor/mcp.json"
    before = file.read_bytes()
    paddock.quickly("import", "tickets", "--replace", "--yes")
    file.write_bytes(before)  # recorded, with its backup, and not yet renamed

    assert paddock.quickly("import", "--undo", "--json").json["undone"][0]["outcome"] == "unchanged"
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*.before-paddock*"))


def test_clients_of_another_place_are_found_there(paddock: Paddock, tmp_path: Path) -> None:
    write_file(tmp_path / "codex/config.toml", CODEX)
    write_json(tmp_path / "xdg/Claude/claude_desktop_config.json", {"mcpServers": {"weather": WEATHER}})
    moved = {"CODEX_HOME": str(tmp_path / "codex"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert list(found(dataclasses.replace(paddock, more=moved))) == ["weather", "docs"]

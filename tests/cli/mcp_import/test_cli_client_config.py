"""After an import: what to paste into the client's settings, and having it written there."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import answering, write_json

DESKTOP = {
    "mcpServers": {
        "weather": answering(),
        "Git Hub": answering(env={"TOKEN": "canary-7b1f0e2d"}),
    },
    "globalShortcut": "Ctrl+Space",
}


PROGRAM = str(Path(sys.executable).parent / "paddock")


def started(paddock: Paddock, **more: str) -> dict[str, Any]:
    """How the client starts this installation of Paddock, with the home of this test."""
    return {**more, "command": PROGRAM, "args": ["mcp"], "env": {"PADDOCK_HOME": str(paddock.home)}}


def test_an_import_prints_what_to_paste_into_claude_desktop(paddock: Paddock, source: Path) -> None:
    file = write_json(source / "claude_desktop_config.json", DESKTOP)
    at_a_port = dataclasses.replace(paddock, more={"PADDOCK_HTTP_ADDRESS": "0.0.0.0:7433"})
    said = at_a_port("import", file, "--yes")

    stdio, end = json.JSONDecoder().raw_decode(said.out)
    over_http = json.loads(said.out[end:])
    assert stdio == {"mcpServers": {"paddock": started(paddock)}}
    assert over_http["mcpServers"]["paddock"]["url"] == "http://127.0.0.1:7433/mcp"
    assert over_http["mcpServers"]["paddock"]["headers"] == {"Authorization": "Bearer KEY"}
    assert json.loads(file.read_text()) == DESKTOP  # nobody asked to change it


def test_an_import_prints_what_to_paste_into_vs_code(paddock: Paddock, source: Path) -> None:
    file = write_json(source / ".vscode" / "mcp.json", {"servers": {"weather": {"command": "node"}}})
    known = dataclasses.replace(paddock, more={"PADDOCK_HTTP_PUBLIC_URL": "https://paddock.example.org"})
    said = known("import", file, "--yes", "--json").json["client"]
    assert said["stdio"] == {"servers": {"paddock": started(paddock, type="stdio")}}
    assert said["http"]["servers"]["paddock"]["url"] == "https://paddock.example.org/mcp"


def test_what_to_paste_names_the_address_at_which_the_daemon_listens(paddock: Paddock, source: Path) -> None:
    file = write_json(source / "claude_desktop_config.json", DESKTOP)
    with daemon(paddock) as running:
        said = paddock("import", file, "--yes", "--json").json["client"]
        address = "http://{}:{}/mcp".format(*running.tcp)
    assert said["http"]["mcpServers"]["paddock"]["url"] == address


def test_replace_puts_paddock_into_the_file_and_keeps_what_it_was(paddock: Paddock, source: Path) -> None:
    file = write_json(source / "claude_desktop_config.json", DESKTOP)
    file.chmod(0o640)
    link = source / "link.json"
    link.symlink_to(file)
    before = file.read_bytes()

    said = paddock("import", link, "--replace", "--yes", "--json").json["client"]
    assert said["http"] is None  # any port that is free: only a daemon would know

    assert json.loads(file.read_text()) == {
        "mcpServers": {"paddock": started(paddock)},
        "globalShortcut": "Ctrl+Space",
    }
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    backup = Path(said["backup"])
    assert backup.read_bytes() == before
    assert backup.stat().st_mode & 0o777 == 0o600  # it holds a key
    assert "canary" not in file.read_text()
    assert sorted(one.name for one in source.iterdir()) == sorted([file.name, backup.name, link.name])


@pytest.mark.slow
def test_a_server_that_was_left_out_stays_in_the_file_and_paddock_is_not_imported_again(
    paddock: Paddock, source: Path
) -> None:
    file = write_json(source / "mcp.json", DESKTOP)
    paddock("import", file, "--only", "weather", "--replace", "--yes")
    assert list(json.loads(file.read_text())["mcpServers"]) == ["paddock", "Git Hub"]

    again = paddock("import", file, "--replace", "--yes", "--json").json
    assert [one["server"] for one in again["imported"]] == ["Git Hub"]
    assert list(json.loads(file.read_text())["mcpServers"]) == ["paddock"]
    assert (source / "mcp.json.before-paddock-2").is_file()
    assert paddock("import", file, "--yes", "--json", code=6).error["code"] == "import.no_servers"


def test_a_person_who_says_no_keeps_the_file_and_what_was_imported(paddock: Paddock, source: Path) -> None:
    file = write_json(source / "mcp.json", {"mcpServers": {"weather": answering()}})
    before = file.read_bytes()
    screen = paddock.on_terminal("import", file, "--replace", "--no-try", answers=["y", "n"], code=4)
    assert "Replace weather in" in screen
    assert "installed weather" in screen
    assert f'"command": "{PROGRAM}"' in screen  # for pasting, after all
    assert file.read_bytes() == before


def test_nothing_is_replaced_in_what_is_no_clients_settings(paddock: Paddock, source: Path) -> None:
    file = write_json(source / "server.json", {"name": "io.example/x", "description": "x", "version": "1.0.0"})
    said = paddock("import", file, "--replace", "--yes", "--json", code=6)
    assert said.error["code"] == "import.no_client_settings"


@pytest.mark.slow
def test_a_server_that_does_not_answer_stays_with_its_client_and_the_others_are_started(
    paddock: Paddock, source: Path
) -> None:
    broken = {"command": "python3", "args": ["-c", "raise SystemExit('no licence')"]}
    keyless = answering(env={"KEY": "${env:PADDOCK_TEST_UNSET}"})
    file = write_json(source / "mcp.json", {"mcpServers": {"good": answering(), "bad": broken, "keyless": keyless}})

    said = paddock("import", file, "--replace", "--yes", "--json", code=7)
    results = {one["server"]: one for one in said.json["imported"]}
    assert {name: one["taken_over"] for name, one in results.items()} == {"good": True, "bad": False, "keyless": False}
    assert results["good"]["state"] == "enabled"
    assert "no licence" in results["bad"]["start"]["error"]["message"]
    assert "bad stays with your client" in said.err
    assert f"paddock import {file} --only bad --replace" in said.err
    assert sorted(json.loads(file.read_text())["mcpServers"]) == ["bad", "keyless", "paddock"]
    assert {one["name"]: one["state"] for one in paddock.quickly("plugin", "list", "--json").json["plugins"]} == {
        "bad": "disabled",
        "good": "enabled",
        "keyless": "disabled",
    }

    tried = paddock("import", file, "--only", "bad", "--replace", "--try", "--yes", "--json", code=7).json["imported"]
    assert (tried[0]["taken_over"], tried[0]["trial"]["answers"]) == (False, False)
    broken["args"] = answering()["args"]
    servers = json.loads(file.read_text())["mcpServers"] | {"bad": broken}
    write_json(file, {"mcpServers": servers})
    paddock("import", file, "--only", "bad", "--replace", "--yes")
    assert sorted(json.loads(file.read_text())["mcpServers"]) == ["keyless", "paddock"]

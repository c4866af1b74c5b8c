"""Paddock as people install it, from its wheel: everything works, stays through an upgrade, and comes back."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.wheel.conftest import NEWER, OLDER, Install, Machine

from fixtures.older_homes import older_home
from fixtures.packages import answering

pytestmark = [pytest.mark.slow, pytest.mark.registry]

WAYS = [
    pytest.param("pipx", marks=pytest.mark.req("B-20", "pipx")),
    pytest.param("uv tool", marks=pytest.mark.req("B-20", "uv tool")),
]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}


def examples_of(machine: Machine) -> Path:
    """The examples that came with the wheel."""
    (folder,) = machine.home.rglob("site-packages/paddock/examples")
    return folder


def count(machine: Machine) -> None:
    said = machine("paddock", "call", "slow-count.squares", "--params", '{"to": 3, "pause_ms": 1}')
    assert '"sum": 14' in said


def note(machine: Machine, text: str) -> None:
    machine("paddock", "call", "native-notes.add_note", "--params", json.dumps({"text": text}))


def notes(machine: Machine) -> str:
    return machine("paddock", "call", "native-notes.list_notes", "--params", "{}", "--json")


def served(machine: Machine) -> dict[str, Any]:
    """What a daemon says when it is ready; it is stopped then."""
    with subprocess.Popen(
        ["paddock", "serve", "--port", "0", "--json"], env=machine.environment, cwd=machine.home, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if (event := json.loads(line))["event"] == "ready":
                    return event
            raise AssertionError("it ended before it was ready")
        finally:
            process.terminate()
            process.stdout.read()


@pytest.mark.parametrize("install", WAYS, indirect=True)
@pytest.mark.req("B-20", "upgrade")
@pytest.mark.req("B-20", "restore")
def test_everything_works_from_the_wheel_stays_through_an_upgrade_and_comes_back_from_a_backup(
    machine: Machine, install: Install, wheels: dict[str, Path]
) -> None:
    install(wheels[OLDER])
    assert machine("paddock", "--version") == f"paddock {OLDER}\n"
    machine("paddock", "doctor")
    for name in ("slow-count", "native-notes", "mcp-units", "shell-status"):
        dangers = ("exec:bash:/", "exec:jq:/") if name == "shell-status" else ()
        grants = [word for danger in dangers for word in ("--grant", danger)]
        machine("paddock", "plugin", "install", examples_of(machine) / name, *grants, "--yes")
        machine("paddock", "plugin", "enable", name)
    count(machine)
    note(machine, "before the upgrade")
    for language in ("python", "typescript", "shell"):
        machine("paddock", "plugin", "new", f"mine-{language}", "--lang", language)
        machine("paddock", "plugin", "check", f"mine-{language}")

    settings = machine.home / ".cursor" / "mcp.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"mcpServers": {"greeter": answering()}}))
    machine("paddock", "import", "--all", "--replace", "--yes")
    entry = json.loads(settings.read_text())["mcpServers"]["paddock"]
    assert Path(entry["command"]).is_relative_to(machine.home)

    install(wheels[NEWER])
    assert machine("paddock", "--version") == f"paddock {NEWER}\n"
    count(machine)
    assert "before the upgrade" in notes(machine)
    assert served(machine)["plugins"] == 5
    started = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n",
        env={"PATH": "/usr/bin:/bin", "HOME": str(machine.home), **entry.get("env", {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(started.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "paddock"

    machine("paddock", "backup", machine.home / "backup.tar")
    for folder in (".config/paddock", ".local/share/paddock", ".local/state/paddock"):
        shutil.rmtree(machine.home / folder)
    machine("paddock", "restore", machine.home / "backup.tar")
    assert json.loads(machine("paddock", "ledger", "verify", "--json"))["verdict"] == "sound"
    assert "before the upgrade" in notes(machine)
    count(machine)


@pytest.mark.parametrize("install", ["uv tool"], indirect=True)
@pytest.mark.req("B-20", "upgrade")
def test_the_wheel_opens_a_home_that_an_older_release_wrote(
    machine: Machine, install: Install, wheels: dict[str, Path]
) -> None:
    install(wheels[NEWER])
    home = older_home(machine.home / "kept")
    machine = dataclasses.replace(machine, variables={"PADDOCK_HOME": str(home)})
    assert "written by an older Paddock" in notes(machine)
    note(machine, "written by this one")
    assert served(machine)["plugins"] == 3
    assert json.loads(machine("paddock", "ledger", "verify", "--json"))["verdict"] == "sound"
    assert "written by an older Paddock" in notes(machine) and "written by this one" in notes(machine)


@pytest.mark.parametrize("install", ["uv tool"], indirect=True)
def test_the_demo_runs_from_the_wheel(machine: Machine, install: Install, wheels: dict[str, Path]) -> None:
    install(wheels[NEWER])
    said = json.loads(machine("paddock", "demo", "--json"))
    assert len(said["installed"]) > 10 and said["running"] and said["calls"] and said["waiting"]

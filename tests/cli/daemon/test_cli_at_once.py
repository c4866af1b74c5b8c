"""Several commands at the same moment, each a process of its own, on both engines."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import native, write_json


@pytest.fixture
def both(tmp_path: Path, database_address: str) -> Paddock:
    """Commands against a fresh home, on each engine in turn."""
    return Paddock(tmp_path / "home", database_address)


def test_of_two_installs_of_one_plugin_one_wins_and_the_other_says_so(both: Paddock, source: Path) -> None:
    native(source)
    running = [both.start("plugin", "install", source, "--yes", "--json") for _ in range(3)]
    answers = [process.communicate(timeout=120)[0] for process in running]
    told = [json.loads(answer) for answer in answers]

    actions = sorted(one.get("action", one.get("error", {}).get("code")) for one in told)
    assert actions.count("installed") == 1
    assert set(actions) <= {"installed", "unchanged", "plugin.changed_meanwhile", "plugin.version_exists"}
    assert [process.returncode for process in running].count(0) == 1 + actions.count("unchanged")
    assert both.listed()["notes"]["state"] == "disabled"
    assert list(both.staging.iterdir()) == []
    both.quickly("plugin", "enable", "notes", "--no-start")


@pytest.mark.slow
def test_eight_different_installs_at_once_all_succeed_with_their_keys(both: Paddock, source: Path) -> None:
    # Half of them bring a key: none may be lost to another command that is tidying up.
    running: list[subprocess.Popen[str]] = []
    for number in range(8):
        if number % 2:
            server = {f"server-{number}": {"command": "node", "env": {"KEY": f"value-{number}"}}}
            file = write_json(source / f"{number}.json", {"mcpServers": server})
            running.append(both.start("import", file, "--yes"))
        else:
            package = native(source / str(number), name=f"plugin-{number}")
            running.append(both.start("plugin", "install", package, "--yes"))
    for process in running:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err

    listed = both.listed()
    assert sorted(listed) == sorted(f"{'server' if number % 2 else 'plugin'}-{number}" for number in range(8))
    assert {row["state"] for row in listed.values()} == {"disabled"}
    entries = tomllib.loads(both.local.read_text())["plugins"]
    secrets = [f"plugin/server-{number}/KEY" for number in (1, 3, 5, 7)]
    assert [entries[f"server-{number}"]["KEY"] for number in (1, 3, 5, 7)] == [
        f"${{secret:{name}}}" for name in secrets
    ]
    assert sorted(row["name"] for row in both.quickly("secret", "list", "--json").json["secrets"]) == secrets
    assert sorted(entries) == sorted(listed)
    assert list(both.staging.iterdir()) == []


DAEMON = """
import sys
from pathlib import Path
from paddock.store.lock import StoreLock
lock = StoreLock.take(Path(sys.argv[1]), "daemon")
print("held", flush=True)
sys.stdin.read()
"""


def test_commands_install_and_list_while_a_daemon_holds_the_store(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(paddock.home / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=paddock.environment,
    ) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "held\n"
        paddock.quickly("plugin", "install", native(source.parent / "second", "tasks"), "--yes")
        listed = json.loads(paddock.quickly("plugin", "list", "--json").out)["plugins"]
        daemon.communicate()
    assert [row["name"] for row in listed] == ["notes", "tasks"]

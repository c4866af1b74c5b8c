"""What a person chooses when they try a plugin at the console: only what they tick is granted, and they may stop it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.packages import answering, write_file, write_json
from fixtures.page_clients import Person, signed_in

CHOOSY = """
import os, sys
folder = os.path.dirname(sys.argv[1])
os.listdir(sys.argv[1])
for name in ("diary.txt", "letters.txt"):
    try:
        open(os.path.join(folder, name)).read()
    except OSError:
        pass
"""
STUCK = """
import time
time.sleep(600)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("choices")


@pytest.fixture(scope="module")
def served(folder: Path) -> Generator[Daemon, None, None]:
    """A host with a server that needs one of three places, and one that never answers."""
    paddock = Paddock(folder / "home")
    (folder / "docs").mkdir()
    for name in ("diary.txt", "letters.txt"):
        write_file(folder / name, "not in the settings")
    words = answering()["args"]
    server = CHOOSY + words[1]
    entries = {
        "choosy": {"command": "python3", "args": ["-c", server, str(folder / "docs")]},
        "stuck": {"command": "python3", "args": ["-c", STUCK]},
    }
    paddock.quickly("import", write_json(folder / "mcp.json", {"mcpServers": entries}), "--yes")
    with daemon(paddock) as started:
        yield started


def granted(served: Daemon, name: str) -> list[str]:
    listed = served.paddock.quickly("plugin", "show", name, "--json").json["capabilities"]
    return [one for one in listed if one != "net:[]"]


def tried(operator: Person, name: str, grants: list[str]) -> str:
    """The page about a trial with these grants, once it is over."""
    operator.followed(f"/plugins/{name}/try", grant=grants)
    eventually(lambda: "See how far it is" not in operator.get(f"/plugins/{name}/try").text, "the trial ends")
    return operator.get(f"/plugins/{name}/try").text


def test_only_what_a_person_ticks_and_the_plugin_needs_is_granted(served: Daemon, folder: Path) -> None:
    operator = signed_in(served, "operator")
    docs, diary, letters = (f"read:fs:{folder / name}" for name in ("docs", "diary.txt", "letters.txt"))
    first = tried(operator, "choosy", [])
    assert all(f'value="{one}"' in first for one in (docs, diary, letters))
    assert granted(served, "choosy") == []

    again = tried(operator, "choosy", [docs, diary])
    assert f"It answers without <code>{diary}</code>, which is not granted" in again
    assert f"Granted: <code>{docs}</code>" in again
    assert granted(served, "choosy") == [docs], "neither what it does not need, nor what was not ticked"


@pytest.mark.slow
def test_a_person_stops_a_trial(served: Daemon) -> None:
    operator = signed_in(served, "operator")
    begun = operator.followed("/plugins/stuck/try").text
    assert 'action="/plugins/stuck/try/cancel"' in begun
    assert "The trial of stuck was cancelled" in operator.followed("/plugins/stuck/try/cancel").text
    assert "was cancelled" in operator.followed("/plugins/stuck/try/cancel").text, "there is nothing more to stop"
    (entry,) = served.paddock.quickly("ledger", "tail", "--type", "plugin.tried", "--json").json["entries"][-1:]
    assert entry["facts"]["error"] == "trial.cancelled"

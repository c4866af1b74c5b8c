"""Commands that replace files of people, killed at every change: nothing is lost, and they can be run again."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.killed import ends
from fixtures.packages import answering, native, write_file, write_json
from fixtures.parrot import parrot

pytestmark = pytest.mark.slow

SERVERS = {"mcpServers": {"tickets": answering(env={"TICKETS_KEY": "canary-5c1d"})}, "theme": "dark"}
CODEX = f"""model = "o3"  # mine

[mcp_servers.docs]
command = "python3"
args = {json.dumps(answering()["args"])}
"""


def files_of(home: Path) -> dict[str, bytes]:
    """Every file of a home but locks, logs, what is made again, and what a killed restore had extracted."""
    volatile = {"run", "cache", "logs", "fingerprints", "staging"}
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file()
        and not volatile & set(path.parts)
        and not path.name.endswith((".lock", "-shm"))
        and not any(part.startswith("restoring-") for part in path.parts)
    }


def copied(template: Path, home: Path) -> None:
    """Make a home what it was."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(template, home, symlinks=True)


@pytest.fixture
def clients(paddock: Paddock) -> dict[Path, bytes]:
    """The settings of two clients, whose servers are imported already."""
    home = paddock.home.parent
    cursor = write_json(home / ".cursor/mcp.json", SERVERS)
    codex = write_file(home / ".codex/config.toml", CODEX)
    paddock.quickly("import", "--all", "--yes")
    return {path: path.read_bytes() for path in (cursor, codex)}


def undo_what_is_recorded(paddock: Paddock, point: int, *, needed: bool) -> None:
    log = paddock.home / "state" / "client-settings.json"
    recorded = log.exists() and json.loads(log.read_text()) != []
    assert recorded or not needed, f"after change {point} nothing says what was replaced"
    paddock.quickly("import", "--undo", code=0 if recorded else 3)


@pytest.mark.parametrize("ending", ["kill", "interrupt"])
def test_import_replace_ended_at_any_point_leaves_either_text_and_undo_puts_back_the_old_one(
    paddock: Paddock, clients: dict[Path, bytes], ending: str
) -> None:
    half_done = 0
    for point in ends(paddock, "import", "--all", "--replace", "--yes", ending=ending):
        replaced = [path for path, before in clients.items() if path.read_bytes() != before]
        half_done += len(replaced) == 1
        for path in replaced:
            assert b"paddock" in path.read_bytes() and b"canary" not in path.read_bytes(), (point, path)
        undo_what_is_recorded(paddock, point, needed=bool(replaced))
        assert {path: path.read_bytes() for path in clients} == clients, point
    assert half_done, "it was also ended between two clients"
    assert all(b"paddock" in path.read_bytes() for path in clients), "the last run came to its end"
    paddock.quickly("import", "--undo")
    assert {path: path.read_bytes() for path in clients} == clients


def test_import_undo_killed_at_any_point_is_finished_by_the_next_one(
    paddock: Paddock, clients: dict[Path, bytes], tmp_path: Path
) -> None:
    paddock.quickly("import", "--all", "--replace", "--yes")
    template = tmp_path / "template"
    folders = [paddock.home, *(path.parent for path in clients)]
    for folder in folders:
        shutil.copytree(folder, template / folder.name, symlinks=True)
    for point in ends(paddock, "import", "--undo"):
        left = [path for path, before in clients.items() if path.read_bytes() != before]
        undo_what_is_recorded(paddock, point, needed=bool(left))
        assert {path: path.read_bytes() for path in clients} == clients, point
        for folder in folders:
            copied(template / folder.name, folder)
    assert {path: path.read_bytes() for path in clients} == clients


def with_unmerged_log(home: Path) -> None:
    """Leave committed rows in the write-ahead log, as a daemon that was killed does."""
    program = (
        "import os, signal, sqlite3, sys; database = sqlite3.connect(sys.argv[1]);"
        "database.execute('PRAGMA wal_autocheckpoint = 0');"
        "database.execute('CREATE TABLE committed (text)');"
        "database.execute(\"INSERT INTO committed VALUES ('kept')\"); database.commit();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(home / "data" / "paddock.db")])
    assert done.returncode == -signal.SIGKILL
    assert (home / "data" / "paddock.db-wal").stat().st_size


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of another home."""
    other = Paddock(tmp_path / "other")
    other.quickly("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    other.quickly("backup", tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


def test_restore_killed_at_any_point_leaves_the_old_home_or_a_half_that_nothing_opens_and_undo_puts_back(
    paddock: Paddock, tmp_path: Path, backup: Path
) -> None:
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    with_unmerged_log(paddock.home)
    before, template = files_of(paddock.home), tmp_path / "template"
    shutil.copytree(paddock.home, template, symlinks=True)
    refused = finished = 0
    for point in ends(paddock, "restore", backup, "--replace"):
        half = (paddock.home / "data" / "restore-journal.json").exists()
        if half:
            refused += 1
            said = paddock.quickly("plugin", "list", "--json", code=6)
            assert said.error["code"] == "config.half_restored", point
            paddock.quickly("restore", "--undo")
        elif (paddock.home / "data" / "plugins" / "parrot").exists():
            finished += 1
            assert list(paddock.listed()) == ["parrot"]
            copied(template, paddock.home)
            continue
        assert files_of(paddock.home) == before, point
        if point % 10 == 0:  # and it can be run again at once
            paddock.quickly("restore", backup, "--replace")
            assert list(paddock.listed()) == ["parrot"]
            assert not list(paddock.home.rglob("restoring-*")), point
        copied(template, paddock.home)
    assert refused > 10 and finished, "it was killed between its renames, and after them"
    assert list(paddock.listed()) == ["parrot"], "the last run came to its end"
    (aside,) = (paddock.home / "data").glob("before-restore-*")
    with sqlite3.connect(aside / "paddock.db") as database:
        assert database.execute("SELECT text FROM committed").fetchall() == [("kept",)]


def test_undo_of_a_restore_that_was_killed_can_be_killed_too(paddock: Paddock, tmp_path: Path, backup: Path) -> None:
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    before = files_of(paddock.home)
    journal = paddock.home / "data" / "restore-journal.json"
    shutil.copytree(paddock.home, whole := tmp_path / "whole", symlinks=True)
    halves = 0
    for _ in ends(paddock, "restore", backup, "--replace"):
        halves += journal.exists()
        if halves == 12:
            break
        copied(whole, paddock.home)
    shutil.copytree(paddock.home, half := tmp_path / "half", symlinks=True)
    taken_back = 0
    for point in ends(paddock, "restore", "--undo"):
        if journal.exists():
            paddock.quickly("restore", "--undo")
            taken_back += 1
        assert files_of(paddock.home) == before, point
        copied(half, paddock.home)
    assert taken_back > 5


def test_backup_killed_at_any_point_leaves_no_file_or_a_whole_one_and_the_next_one_cleans_up(
    paddock: Paddock, tmp_path: Path
) -> None:
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    before, target = files_of(paddock.home), tmp_path / "backups" / "home.tar"
    target.parent.mkdir()
    for point in ends(paddock, "backup", target):
        assert files_of(paddock.home) == before, point
        if target.exists():
            other = Paddock(tmp_path / f"other-{point}")
            other.quickly("restore", target)
            target.unlink()
        if point % 3 == 0:
            paddock.quickly("backup", target)
            assert [path.name for path in target.parent.iterdir()] == [target.name], point
            target.unlink()
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert json.loads(Paddock(tmp_path / "last").quickly("restore", target, "--json").out)["files"]
